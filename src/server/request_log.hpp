#pragma once

#include <cstdint>

#include "http/access_log.hpp"
#include "http/auth.hpp"
#include "server/log.hpp"
#include "server/metrics.hpp"

namespace cove::server {

// One log line for each request that was let in. Anybody can be refused, so refused requests are logged at a bounded
// rate, and a line says how many were not.
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
