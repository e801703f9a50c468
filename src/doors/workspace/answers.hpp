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
  async::Gate::Pass pass;  // a shutdown waits for it
};
// The one the path names, made if it is missing.
Task<Or<Session>> open_session(Services& services, http::Exchange& exchange);
// The same for a name that stands elsewhere.
Task<Or<Session>> open_session_named(Services& services, const http::Principal& principal, std::string name);
// Errc::invalid for a size that is none, Errc::over_limit for one that is too large.
Result<sandbox::CreateRequest> new_session(const config::Config& config, const http::Principal& principal,
                                           std::string name, const std::optional<std::string>& size);
// Whether this door made it.
bool is_session(const sandbox::Sandbox& sandbox);

// Who waits for the answer, and whether they still do.
run::Caller caller_of(const http::Exchange& exchange);
std::function<bool()> gone(const http::Exchange& exchange);

// For routes that know neither HEAD nor a slash at the end.
inline constexpr http::RouteOptions kPlain{.body_limit = UINT64_MAX, .head = false, .strict = true};
// The same for paths that end with one of any length.
inline constexpr http::RouteOptions kRest{.body_limit = UINT64_MAX, .head = false, .strict = true, .rest = true};

}  // namespace cove::doors::workspace
