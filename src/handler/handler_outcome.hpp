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

// What is told of a call. 0: it returned; 1: its code could not be loaded (ValueError); 2: it, or the rest of its code,
// raised an error; 3: there is no result; 6: it is no handler; else how its process ended.
struct HandlerOutcome {
  int exit_code = 3;
  std::string result_json = "null";
  std::string note = {};  // a line for stderr
};

inline constexpr std::size_t kResultLimit = 4U << 20;

// `message` is what the handler said last: the word of code nobody has read, which counts only if its process ended
// well.
HandlerOutcome outcome_of(const HandlerEnd& end, const std::optional<std::string>& message);

}  // namespace cove::handler
