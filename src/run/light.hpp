#pragma once

#include <string_view>

namespace cove::run {

// Whether a Python program imports nothing but numpy and common modules of the standard library, as far as its text
// tells. Light zygotes have nothing else loaded: a program that is judged wrongly runs all the same, and imports the
// rest from disk.
bool is_light(std::string_view code);

}  // namespace cove::run
