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
// The requested time limit; 422 when it is over execute.max_timeout.
Or<std::chrono::milliseconds> checked_timeout(std::chrono::milliseconds asked, const config::Config& config);

// The caller that waits for the answer.
run::Caller caller_of(const http::Exchange& exchange);
std::function<bool()> gone(const http::Exchange& exchange);

// A slot of this door, and a ticket to run something.
struct Admitted {
  sandbox::Admission::Ticket slot;
  sandbox::Admission::Ticket ticket;
  Meter::Running running;
};
// Waits for a slot up to execute.queue_timeout.
Task<Or<Admitted>> admit(Services& services, http::Exchange& exchange, Operation operation);
// 503 when there was no capacity for a sandbox, else 500.
http::Response no_capacity(Services& services, Operation operation, const Error& error);

// For routes without HEAD, empty names and trailing slashes.
inline constexpr http::RouteOptions kStrict{.body_limit = UINT64_MAX, .head = false, .strict = true};
inline constexpr http::RouteOptions kStrictOpen{
    .access = http::Access::open, .body_limit = UINT64_MAX, .head = false, .strict = true};

}  // namespace cove::doors::execute
