#include "base/random_name.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "base/random.hpp"

namespace cove {

std::string random_name(std::string_view prefix) {
  return fmt::format("{}{:016x}{:016x}", prefix, random_number<std::uint64_t>(), random_number<std::uint64_t>());
}

}  // namespace cove
