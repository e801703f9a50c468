#pragma once

#include <cstdint>

#include "http/access_log.hpp"
#include "http/auth.hpp"
#include "server/log.hpp"
#include "server/metrics.hpp"

namespace cove::server {

// Logs every admitted request. Anybody can cause refusals, so those are logged at a bounded rate, with a line that
// counts the ones left out.
class RequestLog {
 public:
  // Both are borrowed.
  RequestLog(const Log& log, Metrics& metrics) : log_(log), metrics_(metrics) {}
  void write(const http::AccessRecord& record);

 private:
  const Log& log_;
  Metrics& metrics_;
  http::FailureThrottle refusals_{{.burst = 100, .per_second = 20}};
  std::uint64_t skipped_ = 0;
};

}  // namespace cove::server
