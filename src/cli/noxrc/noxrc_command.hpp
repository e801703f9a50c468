#pragma once

#include "cli/command.hpp"

namespace cove::cli {

// `noxrc …`, as its own users know it: messages, marks and exit codes are NoxRunner's. Before any thread is made.
int noxrc_command(Words words);

}  // namespace cove::cli
