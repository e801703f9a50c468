#include "server/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <chrono>
#include <ctime>

#include "base/clock.hpp"
#include "base/io.hpp"

namespace cove::server {

void Log::write(config::LogLevel level, std::string_view line) const {
  if (level < options_.level) return;
  static constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error"};
  const auto name = kLevels[static_cast<std::size_t>(level)];
  const auto now = unix_millis();
  auto stamp = iso_time(now);
  stamp.insert(stamp.size() - 1, fmt::format(".{:03}", now % 1000));
  const auto text =
      options_.format == config::LogFormat::json
          ? boost::json::serialize(boost::json::object{{"time", stamp}, {"level", name}, {"message", line}}) + "\n"
          : fmt::format("{} {} {}\n", stamp, name, line);
  // A log nobody can be told through has nobody to tell that to.
  [[maybe_unused]] const auto written = write_all(STDERR_FILENO, text);
}

}  // namespace cove::server
