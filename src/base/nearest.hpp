#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cove {

// How many letters have to be put in, left out or changed to make one word of the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known word that was probably meant by a mistyped one; "" when none is close.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace cove
