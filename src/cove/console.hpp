#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/io.hpp"

namespace cove::cli {

// A line of ours on stderr. When even that cannot be written there is nobody left to tell.
template <typename... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  [[maybe_unused]] const auto written =
      write_all(STDERR_FILENO, fmt::format("cove: {}\n", fmt::format(format, std::forward<Args>(args)...)));
}

// A result on stdout; an error when it did not arrive whole.
inline Result<> put_line(std::string_view line) {
  auto written = write_all(STDOUT_FILENO, fmt::format("{}\n", line));
  if (!written) return fail(written.error().code, fmt::format("standard output: {}", written.error().message));
  return written;
}

}  // namespace cove::cli
