#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/execution.hpp"

namespace cove::doors::jupyter {

// The contents of messages, as Jupyter's clients check them.

// "2026-01-02T03:04:05.678901Z"
std::string iso_micros(std::chrono::system_clock::time_point time);

// A message on iopub that an event of an execution becomes. What an event says is the word of code nobody has read: the
// fields that clients rely on are there, with the right types.
struct Published {
  std::string type;  // "" for an event that is not published
  boost::json::object content;
  std::vector<std::string> buffers;
};
Published published(sandbox::ExecutionEvent event, std::optional<std::int64_t> count);

// {"status": "error", …} of a reply.
boost::json::object error_content(std::string_view name, std::string_view value);
// The same as a message on iopub has it: without the status.
boost::json::object error_output(const boost::json::object& reply);
// The reply to an execution that has ended.
boost::json::object execute_reply(const sandbox::Execution& execution);

}  // namespace cove::doors::jupyter
