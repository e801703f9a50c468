#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "doors/sandboxes/door.hpp"
#include "sandbox/kernel.hpp"

namespace cove::doors::sandboxes {

std::string execution_id(const sandbox::Execution& execution);
// 7 for "e7". Errc::not_found for anything else.
Result<std::uint64_t> execution_number(std::string_view id);

boost::json::object to_json(const sandbox::Kernel& kernel);
boost::json::object to_json(const sandbox::Execution& execution, const sandbox::ExecutionEvent& event);
// The result of an ended execution: its output and how it ended.
boost::json::object result_of(const sandbox::Execution& execution);
// The state of an execution, ended or not.
boost::json::object to_json(const sandbox::Execution& execution);

// Streams an execution's events, from this number on, until it ends, the client disconnects, or the server stops.
Task<> stream_events(http::Exchange& exchange, std::shared_ptr<sandbox::Execution> execution, std::uint64_t from);

}  // namespace cove::doors::sandboxes
