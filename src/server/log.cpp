#include "server/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>

#include "base/clock.hpp"
#include "base/log_fields.hpp"

namespace cove::server {
namespace {

// What a pipe takes whole or not at all.
constexpr std::size_t kLongestLine = PIPE_BUF;
constexpr std::size_t kLongestMessage = kLongestLine - 256;

// Whatever looks like a number is one, except where it is a name that somebody chose.
boost::json::value json_of(const LogField& field) {
  constexpr std::string_view kNames[] = {"id", "sandbox", "tenant", "kernel", "peer", "target", "agent", "reason"};
  if (std::ranges::find(kNames, field.key) != std::end(kNames)) return boost::json::string(field.value);
  const auto* end = field.value.data() + field.value.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(field.value.data(), end, whole); read.ec == std::errc() && read.ptr == end)
    return whole;
  double number = 0;
  const auto read = std::from_chars(field.value.data(), end, number, std::chars_format::fixed);
  if (read.ec == std::errc() && read.ptr == end && std::isfinite(number)) return number;
  return boost::json::string(field.value);
}

std::string json_line(const std::string& stamp, std::string_view level, std::string_view text) {
  const auto line = parse_log_line(text);
  boost::json::object object{
      {"time", stamp}, {"level", level}, {"message", line.words.empty() ? "request" : line.words}};
  for (const auto& field : line.fields) object[field.key] = json_of(field);
  // Boost would write 11.3 as 1.13E1.
  std::string out;
  for (const auto& [name, value] : object)
    out += fmt::format("{}{}:{}", out.empty() ? '{' : ',', boost::json::serialize(boost::json::value(name)),
                       value.is_double() ? fmt::format("{}", value.as_double()) : boost::json::serialize(value));
  return out + "}\n";
}

std::string line_of(const config::Log& options, std::string_view level, std::string_view message) {
  message = message.substr(0, kLongestMessage);
  const auto now = unix_millis();
  auto stamp = iso_time(now);
  stamp.insert(stamp.size() - 1, fmt::format(".{:03}", now % 1000));
  if (options.format == config::LogFormat::json) return json_line(stamp, level, message);
  return fmt::format("{} {} {}\n", stamp, level, message);
}

}  // namespace

std::shared_ptr<LogSink> LogSink::of_stderr() {
  // Opened anew it is another description of the same pipe, terminal or file. A socket cannot be: it is asked not to
  // wait at each call instead.
  UniqueFd own(::open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!own) own.reset(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  return std::make_shared<LogSink>(std::move(own));
}

bool LogSink::put(std::string_view text) const {
  auto written = ::send(fd_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (written < 0 && errno == ENOTSOCK) {
    pollfd ready{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, 0) != 1) return false;
    written = ::write(fd_.get(), text.data(), text.size());
  }
  return written == static_cast<ssize_t>(text.size());
}

bool LogSink::write(std::string_view line) {
  const bool written = put(line);
  lost_ += written ? 0 : 1;
  return written;
}

void Log::write(config::LogLevel level, std::string_view line) const {
  if (level < options_.level) return;
  static constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error"};
  if (const auto untold = sink_->unreported(); untold > 0) {
    const auto notice = fmt::format("log lines lost={}: the reader of this log is too slow", untold);
    if (sink_->write(line_of(options_, "warn", notice))) sink_->mark_reported(untold);
  }
  sink_->write(line_of(options_, kLevels[static_cast<std::size_t>(level)], line));
}

}  // namespace cove::server
