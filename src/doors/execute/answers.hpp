#pragma once

#include <chrono>

#include "doors/execute/door.hpp"
#include "doors/execute/requests.hpp"
#include "fastapi/answers.hpp"

namespace cove::doors::execute {

using fastapi::detail;
using fastapi::in_their_words;
using fastapi::json;
using fastapi::later;
using fastapi::Or;
using fastapi::refuse;
using fastapi::send;
using fastapi::wrong;

// Errors of the core: 404, 409, 413, 503, 507 or 500.
http::Response answer_to(const Error& error, const config::Config& config);
// Reads the whole body, and parses it.
Task<Or<Value>> read_value(const Services& services, http::Exchange& exchange);
// What a request may rely on before it asks for anything.
Or<std::chrono::milliseconds> checked_timeout(std::chrono::milliseconds asked, const config::Config& config);

// A slot, and the right to use it, until it is over.
struct Place {
  sandbox::Admission::Ticket slot;
  sandbox::Admission::Ticket share;
  Meter::Running running;
};
// Waits for one as long as the configuration says.
Task<Or<Place>> take_place(Services& services, http::Exchange& exchange, Operation operation);

// For routes that know neither HEAD nor empty names nor a slash at the end.
http::RouteOptions strict_route(http::Access access = http::Access::key);

}  // namespace cove::doors::execute
