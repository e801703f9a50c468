#pragma once

#include "cli/command.hpp"

namespace cove::cli {

// `noxrc …`, with the messages and exit codes of NoxRunner's own. To be called before any thread is started.
int noxrc_command(Words words);

}  // namespace cove::cli
