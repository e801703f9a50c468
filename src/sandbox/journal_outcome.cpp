#include "sandbox/journal_outcome.hpp"

#include <fmt/format.h>

namespace cove::sandbox {

namespace json = boost::json;

journal::Outcome outcome_of(const ProcessEnd& end) {
  json::object result{{"reason", name_of(end.reason)}, {"exitCode", end.exit_status}};
  if (end.signal != 0) result["signal"] = end.signal;
  if (!end.note.empty()) result["note"] = end.note;
  const bool exited = end.reason == Reason::exited;
  return {.word = exited ? fmt::format("exit {}", end.exit_status) : std::string(name_of(end.reason)),
          .good = exited && end.exit_status == 0,
          .result = std::move(result)};
}

journal::Outcome outcome_of(const ExecutionEnd& end) {
  json::object result{{"reason", name_of(end.reason)}, {"status", name_of(end.status)}};
  for (const auto* name : {"ename", "evalue"}) {
    if (const auto* value = end.reply.if_contains(name); value != nullptr && value->is_string()) result[name] = *value;
  }
  if (!end.note.empty()) result["note"] = end.note;
  const bool ran = end.reason == Reason::exited;
  return {.word = std::string(ran ? name_of(end.status) : name_of(end.reason)),
          .good = ran && end.status == ExecutionEnd::Status::ok,
          .result = std::move(result)};
}

journal::Outcome outcome_of(const Error& error) {
  return {.word = "failed", .good = false, .result = {{"note", error.message}}};
}

}  // namespace cove::sandbox
