#pragma once

#include <string>
#include <string_view>

namespace cove {

// The prefix, then 128 random bits as 32 hex digits: no two are alike, and nobody guesses one.
std::string random_name(std::string_view prefix);

}  // namespace cove
