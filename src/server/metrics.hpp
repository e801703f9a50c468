#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <string>

#include "http/access_log.hpp"

namespace cove::server {

// The server's metrics: counters, and gauges that are read when /metrics is.
class Metrics {
 public:
  Metrics();

  void count(const http::AccessRecord& record);
  using Labels = std::map<std::string, std::string>;
  // A gauge whose value is read().
  void watch(const std::string& name, const std::string& help, std::function<double()> read, const Labels& labels = {});
  // A counter whose value is read().
  void watch_total(const std::string& name, const std::string& help, std::function<double()> read,
                   const Labels& labels = {});

  // For rooms that register metrics themselves.
  [[nodiscard]] prometheus::Registry& registry() { return registry_; }

  [[nodiscard]] std::string text();

 private:
  struct Watched {
    prometheus::Gauge* gauge = nullptr;
    prometheus::Counter* counter = nullptr;
    std::function<double()> read;
  };
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Histogram& seconds_;
  prometheus::Counter& bytes_in_;
  prometheus::Counter& bytes_out_;
  std::vector<Watched> watched_;
};

}  // namespace cove::server
