#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/workspace/door.hpp"
#include "doors/workspace/requests.hpp"
#include "fastapi/answers.hpp"
#include "run/caller.hpp"

namespace cove::doors::workspace {

using fastapi::Answer;
using fastapi::answered;
using fastapi::detail;
using fastapi::Or;

// 200 {"result": {…}, "full_result": {…}, …}: `members` are those of X, without its braces.
http::Response envelope(std::string_view members);

// The one place where errors become statuses. `message` says what failed, the error why.
http::Response answer_to(const Error& error, std::string_view message, const config::Config& config);
// {"detail": {"type": "SandboxError", "message", "detail"}} for an error of the caller.
struct Mistake {
  Errc code = Errc::invalid;  // which status fits
  std::string_view message;
  std::string_view detail = {};  // "": null
};
http::Response mistake(const Mistake& mistake, const config::Config& config);

// Reads the whole body, and parses it.
Task<Or<Value>> read_value(const Services& services, http::Exchange& exchange);

// A session of the caller's tenant, kept alive.
struct Session {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  sandbox::Sandbox::Activity activity;
  async::Gate::Pass pass;  // a shutdown waits for it
};
// The session that the path names, created if it is missing.
Task<Or<Session>> open_session(Services& services, http::Exchange& exchange);
// The same for a given name.
Task<Or<Session>> open_session_named(Services& services, const http::Principal& principal, std::string name);
// Errc::invalid for a malformed size, Errc::over_limit for one that is too large.
Result<sandbox::CreateRequest> new_session(const config::Config& config, const http::Principal& principal,
                                           std::string name, const std::optional<std::string>& size);
// Whether this door created the sandbox.
bool is_session(const sandbox::Sandbox& sandbox);

// The caller that waits for the answer.
run::Caller caller_of(const http::Exchange& exchange);
std::function<bool()> gone(const http::Exchange& exchange);

// For routes without HEAD and trailing slashes.
inline constexpr http::RouteOptions kPlain{.body_limit = UINT64_MAX, .head = false, .strict = true};
// The same for routes whose last parameter is a path.
inline constexpr http::RouteOptions kRest{.body_limit = UINT64_MAX, .head = false, .strict = true, .rest = true};

}  // namespace cove::doors::workspace
