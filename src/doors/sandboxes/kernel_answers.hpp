#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "doors/sandboxes/door.hpp"
#include "sandbox/kernel.hpp"

namespace cove::doors::sandboxes {

std::string execution_id(const sandbox::Execution& execution);
// "e7" is 7. Errc::not_found for what is no execution id.
Result<std::uint64_t> execution_number(std::string_view id);

boost::json::object to_json(const sandbox::Kernel& kernel);
boost::json::object to_json(const sandbox::Execution& execution, const sandbox::ExecutionEvent& event);
// Of one that has ended: everything it said and how it ended.
boost::json::object result_of(const sandbox::Execution& execution);
// Whatever its state is.
boost::json::object to_json(const sandbox::Execution& execution);

// Sends its events from this number on as they come until its end, the client's, or the server's.
Task<> stream_events(http::Exchange& exchange, std::shared_ptr<sandbox::Execution> execution, std::uint64_t from);

}  // namespace cove::doors::sandboxes
