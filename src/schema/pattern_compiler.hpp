#pragma once

#include <string>
#include <vector>

#include "schema/pattern.hpp"

namespace cove::schema {

// The steps of a regular expression. False: it is malformed, or has what they cannot do.
bool compile_pattern(std::u32string text, std::vector<Pattern::Step>& steps, std::vector<Pattern::Set>& sets);
// Whether `\w` means it.
bool word_character(char32_t c);

}  // namespace cove::schema
