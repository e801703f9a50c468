#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/unique_fd.hpp"
#include "config/config.hpp"

namespace cove::server {

// Writes log lines to standard error, through a descriptor of its own that never blocks. When the reader is too slow,
// lines are dropped and their number is logged later. The processes of one server inherit it, and each counts the lines
// that it dropped.
class LogSink {
 public:
  // Opens a descriptor of its own if the kernel allows it, since O_NONBLOCK applies to everybody who shares one.
  static std::shared_ptr<LogSink> of_stderr();
  // Uses an inherited descriptor.
  explicit LogSink(UniqueFd fd) : fd_(std::move(fd)) {}

  // False: the line was dropped, and counted.
  bool write(std::string_view line);
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  // Dropped lines that the log does not mention yet.
  [[nodiscard]] std::uint64_t unreported() const { return lost_ - reported_; }
  void mark_reported(std::uint64_t lines) { reported_ += lines; }

 private:
  [[nodiscard]] bool put(std::string_view text) const;

  UniqueFd fd_;
  std::uint64_t lost_ = 0;
  std::uint64_t reported_ = 0;
};

// Writes lines of a time, a level and key=value pairs. Callers escape what clients sent.
class Log {
 public:
  Log(config::Log options, std::shared_ptr<LogSink> sink) : options_(options), sink_(std::move(sink)) {}
  void set(config::Log options) { options_ = options; }

  void error(std::string_view line) const { write(config::LogLevel::error, line); }
  void warn(std::string_view line) const { write(config::LogLevel::warn, line); }
  void info(std::string_view line) const { write(config::LogLevel::info, line); }
  [[nodiscard]] bool logs_access() const { return options_.access; }
  [[nodiscard]] const std::shared_ptr<LogSink>& sink() const { return sink_; }

 private:
  void write(config::LogLevel level, std::string_view line) const;
  config::Log options_;
  std::shared_ptr<LogSink> sink_;
};

}  // namespace cove::server
