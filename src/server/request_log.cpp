#include "server/request_log.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace cove::server {

void RequestLog::write(const http::AccessRecord& record) {
  metrics_.count(record);
  if (!log_.logs_access()) return;
  const bool refused = record.tenant == "-" && record.status >= 400;
  if (refused && !refusals_.admit("", std::chrono::steady_clock::now())) {
    ++skipped_;
    return;
  }
  if (skipped_ > 0) log_.warn(fmt::format("refused requests not logged={}", std::exchange(skipped_, 0)));
  log_.info(http::to_log_line(record));
}

}  // namespace cove::server
