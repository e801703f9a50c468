#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace cove::store {

// "?,?,?" for "a, b, c": a table lists its columns once, in the order of its row's fields.
inline std::string marks(std::string_view columns) {
  std::string out = "?";
  for (auto commas = std::ranges::count(columns, ','); commas > 0; --commas) out += ",?";
  return out;
}

inline std::string insert_into(std::string_view table, std::string_view columns) {
  return fmt::format("INSERT INTO {} ({}) VALUES ({})", table, columns, marks(columns));
}

}  // namespace cove::store
