#include "cli/client/table.hpp"

#include <algorithm>
#include <ctime>

#include "base/text.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

// Characters, not bytes; those that are twice as wide are rare enough.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  for (auto& cell : row) {
    cell = printable(replace_invalid_utf8(cell));
    std::ranges::replace(cell, '\n', ' ');
  }
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - width(row[i]) + 3, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

std::string coarse(std::chrono::seconds age) {
  const auto seconds = std::max<std::int64_t>(0, age.count());
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86400);
}

std::optional<std::int64_t> unix_seconds(std::string_view iso_time) {
  std::tm parts{};
  const std::string text(iso_time);
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return ::timegm(&parts);
}

}  // namespace cove::cli
