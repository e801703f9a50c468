#pragma once

#include <string>

#include "sandbox/process.hpp"

namespace cove::sandbox {

// What is shown of one stream of a process that has ended: text, whatever its bytes are, and what was cut off in the
// middle of a character is cut off before it.
std::string shown_output(const Process& process, Event::Kind stream);

// Its stderr, and on a line of its own why something other than the program ended it.
std::string with_last_words(const Process& process, std::string err);

}  // namespace cove::sandbox
