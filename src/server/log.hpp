#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/unique_fd.hpp"
#include "config/config.hpp"

namespace cove::server {

// Where log lines go: standard error, through a descriptor of our own that never waits. A reader who does not keep up
// loses lines and is told how many; nobody who logs is held up. Inherited by the processes of one server, each of which
// counts what it lost itself.
class LogSink {
 public:
  // On a descriptor of its own where the kernel gives one: O_NONBLOCK would else be everybody's who has the same one.
  static std::shared_ptr<LogSink> of_stderr();
  // On one that was inherited.
  explicit LogSink(UniqueFd fd) : fd_(std::move(fd)) {}

  // False: the line is lost, and counted.
  bool write(std::string_view line);
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  // Of those lost, how many nobody has been told of yet.
  [[nodiscard]] std::uint64_t untold() const { return lost_ - told_; }
  void tell(std::uint64_t lines) { told_ += lines; }

 private:
  [[nodiscard]] bool put(std::string_view text) const;

  UniqueFd fd_;
  std::uint64_t lost_ = 0;
  std::uint64_t told_ = 0;
};

// Lines of a time, a level, and key=value. What clients sent is escaped before it comes here.
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
