#pragma once

#include <optional>

#include "cove/client_options.hpp"

namespace cove::cli {

// The words of a NoxRunner command line: what follows `cove noxrc`, or everything when the program was called by a link
// named noxrc. None for any other command line.
std::optional<Words> noxrc_words(int argc, char** argv);

// `noxrc …`, as its own users know it: messages, marks and exit codes are NoxRunner's. Before any thread is made.
int noxrc_command(const Words& words);

}  // namespace cove::cli
