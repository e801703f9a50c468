#pragma once

#include <optional>
#include <string>

#include "guest/outcome.hpp"

namespace cove::handler {

// How the process of a handler ended, as the kernel saw it.
struct HandlerEnd {
  guest::Reason reason = guest::Reason::exited;
  int exit_status = 0;
  std::string note = {};  // for people, when something other than the handler ended it
};

// The result of a handler call. Exit codes: 0 it returned; 1 its code could not be loaded (ValueError); 2 the handler,
// or the rest of its code, raised an error; 3 there is no result; 6 it is not a handler; else how its process ended.
struct HandlerOutcome {
  int exit_code = 3;
  std::string result_json = "null";
  std::string note = {};  // a line for stderr
};

inline constexpr std::size_t kResultLimit = 4U << 20;

// `message` is the last message of the handler. It is untrusted, and counts only if the process exited normally.
HandlerOutcome outcome_of(const HandlerEnd& end, const std::optional<std::string>& message);

}  // namespace cove::handler
