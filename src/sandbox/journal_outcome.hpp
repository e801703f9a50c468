#pragma once

#include "base/result.hpp"
#include "journal/act.hpp"
#include "sandbox/execution.hpp"
#include "sandbox/process_request.hpp"

namespace cove::sandbox {

// How a process, or an execution in a kernel, ended, as the journal says it.
journal::Outcome outcome_of(const ProcessEnd& end);
journal::Outcome outcome_of(const ExecutionEnd& end);
journal::Outcome outcome_of(const Error& error);
template <typename T>
journal::Outcome outcome_of(const Result<T>& result) {
  return result ? journal::Outcome{.word = "ok"} : outcome_of(result.error());
}

}  // namespace cove::sandbox
