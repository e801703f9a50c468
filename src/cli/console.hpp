#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/io.hpp"

namespace cove::cli {

// File names and the like may hold anything; a terminal must not act on it. Line breaks are ours.
inline std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out.push_back(c);
  }
  return out;
}

// A line of ours on stderr. When even that cannot be written there is nobody left to tell.
template <typename... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  [[maybe_unused]] const auto written =
      write_all(STDERR_FILENO, fmt::format("cove: {}\n", printable(fmt::format(format, std::forward<Args>(args)...))));
}

// A result on stdout; an error when it did not arrive whole.
inline Result<> put_line(std::string_view line) {
  auto written = write_all(STDOUT_FILENO, fmt::format("{}\n", line));
  if (!written) return fail(written.error().code, fmt::format("standard output: {}", written.error().message));
  return written;
}

}  // namespace cove::cli
