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

// What is counted, and what is read off the moment somebody asks.
class Metrics {
 public:
  Metrics();

  void count(const http::AccessRecord& record);
  using Labels = std::map<std::string, std::string>;
  // A number that `read` gives when asked.
  void watch(const std::string& name, const std::string& help, std::function<double()> read, const Labels& labels = {});
  // The same for one that only grows.
  void watch_total(const std::string& name, const std::string& help, std::function<double()> read,
                   const Labels& labels = {});

  // For rooms that count by themselves.
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
