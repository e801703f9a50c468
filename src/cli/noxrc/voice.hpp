#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/io.hpp"
#include "cli/noxrc/backend.hpp"

namespace cove::cli::noxrc {

// Marks and colours. Colours when standard output is a terminal, for both streams.
class Voice {
 public:
  void good(std::string_view text) const { say(STDOUT_FILENO, "32", "✓ ", text); }
  void info(std::string_view text) const { say(STDOUT_FILENO, "34", "ℹ ", text); }
  void warn(std::string_view text) const { say(STDOUT_FILENO, "33", "⚠ ", text); }
  void bad(std::string_view text) const { say(STDERR_FILENO, "31", "✗ ", text); }
  void alarm(std::string_view text) const { say(STDERR_FILENO, "31", "", text); }
  [[nodiscard]] std::string coloured(std::string_view colour, std::string_view text) const {
    return colours_ ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : std::string(text);
  }

 private:
  void say(int fd, std::string_view colour, std::string_view mark, std::string_view text) const {
    [[maybe_unused]] const auto written = write_all(fd, coloured(colour, fmt::format("{}{}", mark, text)) + "\n");
  }
  bool colours_ = ::isatty(STDOUT_FILENO) == 1;
};

// Reports an error and returns the exit status. Ctrl-C is passed on, to be reported once at the top.
Result<int> report_failure(const Voice& voice, std::string_view what, const Error& error);
// Reports the outcome of an operation without a result.
Result<int> report(const Voice& voice, const Result<>& done, std::string_view good, std::string_view bad);
// Prints the output of a command.
Result<> print(const ExecResult& result);

}  // namespace cove::cli::noxrc
