#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/workspace/door.hpp"
#include "doors/workspace/requests.hpp"
#include "fastapi/answers.hpp"

namespace cove::doors::workspace {

using fastapi::detail;
using fastapi::Or;
using fastapi::send;

// 200 {"result": {…}, "full_result": {…}, …}: `members` are those of X, without its braces.
http::Response envelope(std::string_view members);

// The one place where errors become statuses. `message` says what failed, the error why.
http::Response answer_to(const Error& error, std::string_view message, const config::Config& config);
// {"detail": {"type": "SandboxError", "message", "detail"}} for a mistake of the caller's.
struct Mistake {
  Errc code = Errc::invalid;  // which status fits
  std::string_view message;
  std::string_view detail = {};  // "": null
};
http::Response mistake(const Mistake& mistake, const config::Config& config);

// Reads the whole body, and parses it.
Task<Or<Value>> read_value(const Services& services, http::Exchange& exchange);

// A session of the caller's tenant, in use.
struct Session {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  sandbox::Sandbox::Activity activity;
  sandbox::Transfer transfer;
};
// The one the path names, made if it is missing.
Task<Or<Session>> open_session(Services& services, http::Exchange& exchange);
// The same for a name that stands elsewhere.
Task<Or<Session>> open_session_named(Services& services, const http::Principal& principal, std::string name);
// Errc::invalid for a size that is none, Errc::over_limit for one that is too large.
Result<sandbox::CreateRequest> new_session(const config::Config& config, const http::Principal& principal,
                                           std::string name, const std::optional<std::string>& size);
sandbox::Quotas quotas_of(const Services& services, const http::Principal& principal);
// Whether this door made it.
bool is_session(const sandbox::Sandbox& sandbox);

// The right to run something now.
Task<Result<sandbox::Admission::Ticket>> take_turn(Services& services, http::Exchange& exchange);
std::function<bool()> gone(const http::Exchange& exchange);
// Waits for the end of a process. False: nobody waits for it any more.
Task<bool> wait_for_end(http::Exchange& exchange, sandbox::Process& process);

// For routes that know neither HEAD nor a slash at the end.
http::RouteOptions plain_route();

}  // namespace cove::doors::workspace
