#include "server/metrics.hpp"

#include <prometheus/text_serializer.h>

namespace cove::server {
namespace {

// Whatever a client calls its method, the series stay few.
std::string known_method(const std::string& method) {
  for (const char* known : {"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"}) {
    if (method == known) return method;
  }
  return "other";
}

}  // namespace

Metrics::Metrics()
    : requests_(
          prometheus::BuildCounter().Name("cove_http_requests_total").Help("Requests answered").Register(registry_)),
      seconds_(prometheus::BuildHistogram()
                   .Name("cove_http_request_seconds")
                   .Help("From the head of a request to the end of its answer")
                   .Register(registry_)
                   .Add({}, prometheus::Histogram::BucketBoundaries{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                                    0.5, 1, 2.5, 5, 10, 30})),
      bytes_in_(prometheus::BuildCounter()
                    .Name("cove_http_received_bytes_total")
                    .Help("Bytes of request bodies")
                    .Register(registry_)
                    .Add({})),
      bytes_out_(prometheus::BuildCounter()
                     .Name("cove_http_sent_bytes_total")
                     .Help("Bytes of answers' bodies")
                     .Register(registry_)
                     .Add({})) {}

void Metrics::count(const http::AccessRecord& record) {
  requests_.Add({{"method", known_method(record.method)}, {"status", std::to_string(record.status)}}).Increment();
  seconds_.Observe(std::chrono::duration<double>(record.duration).count());
  bytes_in_.Increment(static_cast<double>(record.bytes_in));
  bytes_out_.Increment(static_cast<double>(record.bytes_out));
}

void Metrics::watch(const std::string& name, const std::string& help, std::function<double()> read,
                    const Labels& labels) {
  auto& gauge = prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
  watched_.push_back({.gauge = &gauge, .read = std::move(read)});
}

void Metrics::watch_total(const std::string& name, const std::string& help, std::function<double()> read,
                          const Labels& labels) {
  auto& counter = prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
  watched_.push_back({.counter = &counter, .read = std::move(read)});
}

std::string Metrics::text() {
  for (auto& watched : watched_) {
    const double value = watched.read();
    if (watched.gauge != nullptr) watched.gauge->Set(value);
    if (watched.counter != nullptr) watched.counter->Increment(value - watched.counter->Value());
  }
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace cove::server
