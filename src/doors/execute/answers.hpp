#pragma once

#include <chrono>

#include "doors/execute/door.hpp"
#include "doors/execute/requests.hpp"
#include "fastapi/answers.hpp"
#include "run/caller.hpp"

namespace cove::doors::execute {

using fastapi::Answer;
using fastapi::answered;
using fastapi::detail;
using fastapi::in_their_words;
using fastapi::json;
using fastapi::later;
using fastapi::Or;
using fastapi::refuse;
using fastapi::wrong;

// Errors of the core: 404, 409, 413, 503, 507 or 500.
http::Response answer_to(const Error& error, const config::Config& config);
// Reads the whole body, and parses it.
Task<Or<Value>> read_value(const Services& services, http::Exchange& exchange);
// What a request may rely on before it asks for anything.
Or<std::chrono::milliseconds> checked_timeout(std::chrono::milliseconds asked, const config::Config& config);

// Who waits for the answer, and whether they still do.
run::Caller caller_of(const http::Exchange& exchange);
std::function<bool()> gone(const http::Exchange& exchange);

// A slot of this door, and the right to run something in it.
struct Place {
  sandbox::Admission::Ticket slot;
  sandbox::Admission::Ticket ticket;
  Meter::Running running;
};
// Waits for one as long as the configuration says.
Task<Or<Place>> take_place(Services& services, http::Exchange& exchange, Operation operation);
// 503 where no sandbox could be had for want of room, else 500.
http::Response no_capacity(Services& services, Operation operation, const Error& error);

// For routes that know neither HEAD nor empty names nor a slash at the end.
inline constexpr http::RouteOptions kStrict{.body_limit = UINT64_MAX, .head = false, .strict = true};
inline constexpr http::RouteOptions kStrictOpen{
    .access = http::Access::open, .body_limit = UINT64_MAX, .head = false, .strict = true};

}  // namespace cove::doors::execute
