#include "handler/handler_outcome.hpp"

#include <fmt/format.h>

#include "fastapi/value.hpp"

namespace cove::handler {

HandlerOutcome outcome_of(const HandlerEnd& end, const std::optional<std::string>& message) {
  using fastapi::Value;
  if (end.exit_status != 0) {
    if (end.reason == guest::Reason::exited)
      return {.note = fmt::format("System error: the handler ended its process with status {}\n", end.exit_status)};
    return {.exit_code = end.exit_status, .note = end.note.empty() ? "" : end.note + "\n"};
  }
  const auto parsed = fastapi::parse_json(message.value_or("null"));
  const auto* said = std::get_if<Value>(&parsed);
  const auto* result = said == nullptr ? nullptr : said->member("result");
  const auto* code = said == nullptr ? nullptr : said->member("exit_code");
  if (result == nullptr || code == nullptr || code->kind != Value::Kind::integer || code->text.size() != 1)
    return {.note = "System error: the handler ended without a result of at most 4 MiB and 100000 values\n"};
  return {.exit_code = code->text.front() - '0', .result_json = to_json(*result)};
}

}  // namespace cove::handler
