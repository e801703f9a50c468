#include "doors/execute/meter.hpp"

#include <array>

namespace cove::doors::execute {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = prometheus::Labels;

const Buckets& buckets() {
  static const Buckets kBuckets{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300};
  return kBuckets;
}

Labels of(Operation operation) {
  return {{"operation", std::string(name_of(operation))}};
}

std::string_view name_of(Outcome outcome) {
  constexpr std::array<std::string_view, 3> kNames{"ok", "timed_out", "error"};
  return kNames.at(static_cast<std::size_t>(outcome));
}

double seconds(Meter::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string_view name_of(Operation operation) {
  constexpr std::array<std::string_view, 4> kNames{"execute", "execute_stream", "session_create", "session_bash"};
  return kNames.at(static_cast<std::size_t>(operation));
}

Meter::Meter(prometheus::Registry& registry)
    : active_(prometheus::BuildGauge()
                  .Name("code_interpreter_executions_active")
                  .Help("Executions that hold a slot now")
                  .Register(registry)),
      rejected_(prometheus::BuildCounter()
                    .Name("code_interpreter_executions_rejected_total")
                    .Help("Executions refused for want of capacity")
                    .Register(registry)),
      completed_(prometheus::BuildCounter()
                     .Name("code_interpreter_executions_completed_total")
                     .Help("Executions that were admitted and are over")
                     .Register(registry)),
      wait_(prometheus::BuildHistogram()
                .Name("code_interpreter_admission_wait_seconds")
                .Help("How long executions waited for a slot")
                .Register(registry)),
      duration_(prometheus::BuildHistogram()
                    .Name("code_interpreter_execution_duration_seconds")
                    .Help("How long executions held their slot")
                    .Register(registry)) {
  // Present from the start, so that a rate over them is always defined.
  for (const auto operation :
       {Operation::execute, Operation::execute_stream, Operation::session_create, Operation::session_bash}) {
    active_.Add(of(operation)).Set(0);
    wait_.Add(of(operation), buckets());
    duration_.Add(of(operation), buckets());
  }
}

void Meter::rejected(Operation operation, unsigned status, std::string_view reason) {
  auto labels = of(operation);
  labels["status"] = std::to_string(status);
  labels["reason"] = std::string(reason);
  rejected_.Add(labels).Increment();
}

void Meter::waited(Operation operation, Clock::duration duration) {
  wait_.Add(of(operation), buckets()).Observe(seconds(duration));
}

Meter::Running::Running(Meter& meter, Operation operation)
    : meter_(&meter), operation_(operation), began_(Clock::now()) {
  meter.active_.Add(of(operation)).Increment();
}

Meter::Running::~Running() {
  if (meter_ == nullptr) return;
  meter_->active_.Add(of(operation_)).Decrement();
  meter_->duration_.Add(of(operation_), buckets()).Observe(seconds(Clock::now() - began_));
  auto labels = of(operation_);
  labels["outcome"] = std::string(name_of(outcome_));
  meter_->completed_.Add(labels).Increment();
}

}  // namespace cove::doors::execute
