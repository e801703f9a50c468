#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cove::cli {

// A table of aligned columns, without control characters and without trailing blanks.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) { add(std::move(heads)); }
  void add(std::vector<std::string> row);
  [[nodiscard]] std::string text() const;  // without the last line break

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "42s", "5m", "3h", "12d": an age or duration in one number and unit.
std::string coarse(std::chrono::seconds age);

// The time in "2026-03-04T10:15:00Z"; none for anything else.
std::optional<std::int64_t> unix_seconds(std::string_view iso_time);

}  // namespace cove::cli
