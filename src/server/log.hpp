#pragma once

#include <string_view>

#include "config/config.hpp"

namespace cove::server {

// Lines on stderr: a time, a level, and key=value. What clients sent is escaped before it comes here.
class Log {
 public:
  explicit Log(config::Log options) : options_(options) {}
  void set(config::Log options) { options_ = options; }

  void error(std::string_view line) const { write(config::LogLevel::error, line); }
  void warn(std::string_view line) const { write(config::LogLevel::warn, line); }
  void info(std::string_view line) const { write(config::LogLevel::info, line); }
  void access(std::string_view line) const {
    if (options_.access) write(config::LogLevel::info, line);
  }

 private:
  void write(config::LogLevel level, std::string_view line) const;
  config::Log options_;
};

}  // namespace cove::server
