#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "doors/resources/door.hpp"
#include "fastapi/answers.hpp"
#include "sandbox/files.hpp"

namespace cove::doors::resources {

using fastapi::Answer;
using fastapi::answered;
using fastapi::detail;
using fastapi::json;
using fastapi::later;
using fastapi::Or;
using fastapi::refuse;

inline constexpr std::string_view kEscapes = "Invalid path: escapes root directory";
inline constexpr std::size_t kChunk = 256U << 10;

// Work in the sandbox of a request. Counts as activity; a shutdown waits for it.
struct Work {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  sandbox::SandboxFiles files;  // confined to the working directory; abandoned when the client is gone
  sandbox::Sandbox::Activity activity;
  async::Gate::Pass pass;
};
// The sandbox of the path, or of the request's scope. 400 without any, 404 for an unknown one.
Task<Or<Work>> begin_work(Services& services, const http::Exchange& exchange);

// The path of a request, absolute in the sandbox. 400 when it leads out of the working directory.
Or<std::string> path_of(const Work& work, const http::Request& request);

// Errors of the core and of the file helper. `absent`: what a path that names nothing of the kind is told, with 404.
http::Response answer_to(const Error& error, std::string_view absent);

// 413 for a body that is announced to be larger than upload.max_body.
Or<std::uint64_t> checked_length(const Services& services, const http::Exchange& exchange);
// Forwards the body. Fails when it is incomplete, so that the write is undone.
Task<Result<>> pass_body_on(http::Exchange& exchange, sandbox::FileInput& input, std::uint64_t limit);

// Routes of a scope; the same for bodies of any size, whose limit is the handler's.
inline constexpr http::RouteOptions kScoped{.head = false, .scoped = true};
inline constexpr http::RouteOptions kScopedRest{.body_limit = UINT64_MAX, .head = false, .rest = true, .scoped = true};
// The same below /v1/sandboxes.
inline constexpr http::RouteOptions kPlain{.head = false};
inline constexpr http::RouteOptions kRest{.body_limit = UINT64_MAX, .head = false, .rest = true};

}  // namespace cove::doors::resources
