#include "mcp/http/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "async/deadline.hpp"
#include "base/random_name.hpp"
#include "json/shape.hpp"
#include "mcp/envelope.hpp"
#include "mcp/http/headers.hpp"
#include "mcp/http/refusal.hpp"
#include "mcp/input.hpp"

namespace cove::mcp_http {
namespace {

namespace json = boost::json;
using cove::mcp::Code;
using cove::mcp::Fault;
using cove::mcp::Peer;
using cove::mcp::Revision;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{250};
// A slower answer is sent as events, which keep the connection alive and can be resumed.
constexpr std::chrono::seconds kQuick{1};
constexpr std::chrono::seconds kIdleCheckInterval{10};
constexpr std::size_t kMaxSessions = 256;  // of one tenant
constexpr std::size_t kRouteLimit = std::size_t{64} << 20;

// The HTTP status of a modern answer. Faults of the envelope are answered with 400 earlier.
unsigned status_of(int fault) {
  switch (static_cast<Code>(fault)) {
    case Code::method_not_found:
      return 404;
    case Code::invalid_request:
    case Code::missing_capability:
      return 400;
    default:
      return 200;
  }
}

bool has_enveloped(const json::array& batch) {
  return std::ranges::any_of(batch, [](const json::value& element) {
    const auto* object = element.if_object();
    const auto* params = object != nullptr ? object->if_contains("params") : nullptr;
    return params != nullptr && params->is_object() && cove::mcp::has_envelope(params->as_object());
  });
}

Fault no_such_session(const http::Request& request) {
  if (!request.header("Mcp-Session-Id").empty())
    return {.code = Code::session_not_found, .message = "Session not found: initialize again"};
  return {.code = Code::no_session, .message = "Bad request: the header Mcp-Session-Id is missing"};
}

unsigned status_without_session(const http::Request& request) {
  return request.header("Mcp-Session-Id").empty() ? 400 : 404;
}

bool is_modern(const http::Request& request) {
  return request.header("MCP-Protocol-Version") == name_of(cove::mcp::kModern);
}

// "STREAM_NUMBER".
std::optional<std::pair<std::string, std::uint64_t>> read_event_id(std::string_view text) {
  const auto cut = text.rfind('_');
  if (cut == std::string_view::npos || cut + 1 == text.size()) return std::nullopt;
  std::uint64_t number = 0;
  const auto* end = text.data() + text.size();
  const auto [stopped, wrong] = std::from_chars(text.data() + cut + 1, end, number);
  if (wrong != std::errc() || stopped != end) return std::nullopt;
  return std::pair(std::string(text.substr(0, cut)), number);
}

}  // namespace

Endpoint::Endpoint(boost::asio::any_io_executor executor, Services services)
    : executor_(std::move(executor)), services_(std::move(services)) {}

std::shared_ptr<Peer> Endpoint::new_peer(const http::Request& request, Peer::Options options) const {
  options.tenant = request.principal.tenant;
  options.key_id = request.principal.key_id;
  return std::make_shared<Peer>(executor_, services_.core.tasks, services_.service, std::move(options));
}

Task<std::optional<Posted>> Endpoint::read(http::Exchange& exchange) {
  if (!is_json(exchange.request())) {
    co_await refuse(exchange, 415, {Code::no_session, "Unsupported media type: Content-Type must be application/json"});
    co_return std::nullopt;
  }
  const auto body = co_await exchange.read_body(services_.core.config()->mcp.max_body_bytes);
  if (!body) {
    const auto code = body.error().code;
    if (code != Errc::unavailable)
      co_await refuse(exchange, code == Errc::over_limit ? 413 : 400, {Code::invalid_request, body.error().message});
    co_return std::nullopt;
  }
  if (cove::json::shape_of(*body).elements > cove::mcp::Input::kMaxElements) {
    co_await refuse(exchange, 413, {Code::invalid_request, cove::mcp::too_many_elements()});
    co_return std::nullopt;
  }
  auto posted = read_posted(*body);
  if (!posted) co_await refuse(exchange, 400, {Code::parse_error, "Parse error"});
  co_return posted;
}

Task<> Endpoint::post(http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto taken = accepts(request);
  if (!taken.json && !taken.events) {
    Fault fault{Code::no_session, "Not acceptable: Accept must list application/json or text/event-stream"};
    co_return co_await refuse(exchange, 406, std::move(fault));
  }
  auto posted = co_await read(exchange);
  if (!posted) co_return;
  if (const auto* batch = posted->value.if_array(); batch != nullptr && (batch->empty() || has_enveloped(*batch))) {
    Fault fault{Code::invalid_request,
                "Invalid request: the batch is empty or contains requests of revision 2026-07-28"};
    co_return co_await refuse(exchange, 400, std::move(fault));
  }
  const bool enveloped = cove::mcp::has_envelope(posted->params);
  if (posted->method == "initialize" && !(enveloped && cove::mcp::read_envelope(posted->params))) {
    if (!is_modern(request)) co_return co_await post_legacy(exchange, std::move(*posted));
    Fault fault{Code::header_mismatch, "initialize does not exist in the revision that the header names"};
    co_return co_await refuse(exchange, 400, std::move(fault), posted->id);
  }
  if (enveloped) co_return co_await post_modern(exchange, std::move(*posted));
  if (is_modern(request) && posted->kind == Posted::Kind::response)
    co_return co_await refuse(exchange, 400,
                              {Code::invalid_request, "Invalid request: this server has not asked for a response"});
  if (is_modern(request)) co_return co_await refuse(exchange, 400, cove::mcp::missing_envelope(), posted->id);
  co_await post_legacy(exchange, std::move(*posted));
}

Task<> Endpoint::post_modern(http::Exchange& exchange, Posted posted) {
  const auto& request = exchange.request();
  if (const auto envelope = cove::mcp::read_envelope(posted.params);
      !envelope && envelope.error().code == Code::invalid_params)
    co_return co_await refuse(exchange, 400, envelope.error(), posted.id);
  if (auto fault = version_mismatch(request, posted.params))
    co_return co_await refuse(exchange, 400, std::move(*fault), posted.id);
  if (const auto envelope = cove::mcp::read_envelope(posted.params); !envelope)
    co_return co_await refuse(exchange, 400, envelope.error(), posted.id);
  const auto fault = mismatch(request, posted.method, posted.params, services_.service);
  if (fault) co_return co_await refuse(exchange, 400, *fault, posted.id);
  if (!posted.asks()) co_return co_await send(exchange, taken());
  co_await answer(exchange, std::move(posted), new_peer(request, {}), nullptr);
}

Task<> Endpoint::post_legacy(http::Exchange& exchange, Posted posted) {
  const auto& request = exchange.request();
  const auto version = request.header("MCP-Protocol-Version");
  const auto revision = version.empty() ? Revision::v2025_03_26 : cove::mcp::find_revision(version);
  if (!revision) {
    Fault fault{Code::no_session, fmt::format("Unsupported protocol version: {}", version)};
    co_return co_await refuse(exchange, 400, std::move(fault), posted.id);
  }
  const bool stateless = services_.core.config()->mcp.stateless && request.header("Mcp-Session-Id").empty();
  if (stateless) {
    Peer::Options options;
    if (posted.method != "initialize") options.assumed = *revision;
    co_return co_await answer(exchange, std::move(posted), new_peer(request, std::move(options)), nullptr);
  }
  const bool begins = posted.method == "initialize" && posted.asks();
  auto session = find(request);
  if (!session && begins) session = new_session(request);
  if (session) co_return co_await answer(exchange, std::move(posted), session->peer, session);
  if (!begins)
    co_return co_await refuse(exchange, status_without_session(request), no_such_session(request), posted.id);
  co_await refuse(exchange, 503, {Code::internal, "Too many sessions: end one, or try again later"}, posted.id);
}

Following Endpoint::following(const std::shared_ptr<HttpSession>& session, std::uint64_t after) const {
  Following out{.after = after, .ids = session != nullptr};
  if (!session) return out;
  out.while_it_lasts = [session] { session->used = Clock::now(); };
  out.headers.emplace_back("Mcp-Session-Id", session->name);
  return out;
}

Task<> Endpoint::answer(http::Exchange& exchange, Posted posted, std::shared_ptr<Peer> peer,
                        std::shared_ptr<HttpSession> session) {
  const auto takes = accepts(exchange.request());
  const auto stream = session ? new_stream(*session) : std::make_shared<Stream>(executor_, "");
  peer->take(posted.value, std::make_shared<PostOutlet>(
                               stream, takes.events ? PostOutlet::Carries::everything : PostOutlet::Carries::answers));
  posted = {};
  const auto late = takes.json ? Clock::now() + kQuick : Clock::now();
  while (!stream->finished() && !(takes.events && (stream->tells() || Clock::now() >= late))) {
    co_await stream->changed().wait_until(Clock::now() + kPollInterval);
    if (!exchange.client_gone()) continue;
    if (session) co_return keep(session, stream);  // the client may resume
    co_return peer->cancel_all();
  }
  const auto* only = takes.json ? stream->only_answer() : nullptr;
  if (only != nullptr || (stream->finished() && stream->after(0).empty())) {
    auto response = taken();
    if (only != nullptr) {
      response = {.status = session ? 200 : status_of(only->fault), .body = only->data};
      if (session) response.headers.emplace_back("Mcp-Session-Id", session->name);
    }
    if (session) session->streams.erase(stream->name());
    co_return co_await send(exchange, std::move(response));
  }
  auto way = following(session, 0);
  way.primes = session && session->peer->revision() >= Revision::v2025_11_25;
  co_await follow(exchange, stream, std::move(way));
  if (session) co_return keep(session, stream);
  if (!stream->finished()) peer->cancel_all();
}

Task<> Endpoint::get(http::Exchange& exchange) {
  const auto& request = exchange.request();
  if (is_modern(request) && request.header("Mcp-Session-Id").empty()) {
    http::Response none{.status = 405, .content_type = "", .headers = {{"Allow", "POST"}}};
    co_return co_await send(exchange, std::move(none));
  }
  if (!accepts(request).events)
    co_return co_await refuse(exchange, 406, {Code::no_session, "Not acceptable: Accept must list text/event-stream"});
  const auto session = find(request);
  if (!session) co_return co_await refuse(exchange, status_without_session(request), no_such_session(request));
  auto stream = session->standalone;
  auto after = stream->given();
  if (const auto last = request.header("Last-Event-ID"); !last.empty()) {
    const auto event = read_event_id(last);
    const auto found = event ? session->streams.find(event->first) : session->streams.end();
    if (found == session->streams.end()) {
      Fault fault{Code::no_session, "Bad request: Last-Event-ID is not an event of this session"};
      co_return co_await refuse(exchange, 400, std::move(fault));
    }
    stream = found->second;
    after = event->second;
  }
  auto way = following(session, after);
  co_await follow(exchange, stream, std::move(way));
}

Task<> Endpoint::remove(http::Exchange& exchange) {
  const auto& request = exchange.request();
  if (is_modern(request) && request.header("Mcp-Session-Id").empty()) {
    http::Response none{.status = 405, .content_type = "", .headers = {{"Allow", "POST"}}};
    co_return co_await send(exchange, std::move(none));
  }
  const auto session = find(request);
  if (!session) co_return co_await refuse(exchange, status_without_session(request), no_such_session(request));
  end(session);
  http::Response done{.status = 204, .content_type = ""};
  co_await send(exchange, std::move(done));
}

std::shared_ptr<Endpoint::HttpSession> Endpoint::new_session(const http::Request& request) {
  std::size_t mine = 0;
  std::shared_ptr<HttpSession> oldest;
  for (const auto& [name, session] : sessions_) {
    if (session->peer->tenant() != request.principal.tenant) continue;
    ++mine;
    if (session->peer->in_flight() == 0 && (!oldest || session->used < oldest->used)) oldest = session;
  }
  if (mine >= kMaxSessions && !oldest) return nullptr;
  if (mine >= kMaxSessions) end(oldest);
  auto session = std::make_shared<HttpSession>();
  session->peer = new_peer(request, {});
  session->principal = request.principal;
  session->used = Clock::now();
  session->name = random_name("");
  session->standalone = new_stream(*session);
  session->peer->speak_on(std::make_shared<OpenOutlet>(session->standalone));
  sessions_[session->name] = session;
  return session;
}

void Endpoint::end(const std::shared_ptr<HttpSession>& session) {
  session->peer->cancel_all();
  for (const auto& [name, stream] : session->streams) stream->finish();
  sessions_.erase(session->name);
}

// A session belongs to the key that began it: its id alone is not enough.
std::shared_ptr<Endpoint::HttpSession> Endpoint::find(const http::Request& request) {
  const auto found = sessions_.find(std::string(request.header("Mcp-Session-Id")));
  if (found == sessions_.end()) return nullptr;
  const auto& session = found->second;
  if (session->peer->tenant() != request.principal.tenant || session->peer->key_id() != request.principal.key_id)
    return nullptr;
  session->used = Clock::now();
  session->principal = request.principal;  // a token is renewed from time to time
  return session;
}

std::shared_ptr<Stream> Endpoint::new_stream(HttpSession& session) const {
  auto stream = std::make_shared<Stream>(executor_, std::to_string(session.next_stream++));
  session.streams[stream->name()] = stream;
  return stream;
}

void Endpoint::keep(const std::shared_ptr<HttpSession>& session, const std::shared_ptr<Stream>& stream) {
  const auto config = services_.core.config();
  UsageBounds bounds;
  bounds.tenant.bytes = config->mcp.tenant_replay_bytes;
  bounds.all.bytes = config->mcp.max_replay_bytes;
  const std::weak_ptr<HttpSession> weak = session;
  const auto forget = [weak, name = stream->name()] {
    if (const auto held = weak.lock()) held->streams.erase(name);
  };
  replay_.keep(session->peer->tenant(),
               {.stream = stream, .expired = [weak] { return weak.expired(); }, .forget = forget}, bounds);
}

Task<> Endpoint::end_idle_sessions() {
  while (true) {
    co_await async::sleep_for(kIdleCheckInterval);
    replay_.tidy();
    const auto before = Clock::now() - services_.core.config()->mcp.session_idle;
    std::vector<std::shared_ptr<HttpSession>> idle;
    for (const auto& [name, session] : sessions_) {
      const bool unused = session->peer->in_flight() == 0 && session->used < before;
      if (unused || !services_.core.authority.still_valid(session->principal)) idle.push_back(session);
    }
    for (const auto& session : idle) end(session);
  }
}

namespace {

template <Task<> (Endpoint::*member)(http::Exchange&)>
Task<> call(Endpoint& endpoint, http::Exchange& exchange) {
  return (endpoint.*member)(exchange);
}

}  // namespace

std::vector<http::RouteRow<Endpoint>> routes() {
  using http::verb;
  const http::RouteOptions message{.body_limit = kRouteLimit};
  const http::RouteOptions stream{.head = false};
  const http::RouteOptions open{.access = http::Access::open};
  return {
      {verb::post, "/mcp", call<&Endpoint::post>, message},
      {verb::get, "/mcp", call<&Endpoint::get>, stream},
      {verb::delete_, "/mcp", call<&Endpoint::remove>},
      {verb::get, "/.well-known/oauth-protected-resource", call<&Endpoint::describe_resource>, open},
      {verb::get, "/.well-known/oauth-protected-resource/mcp", call<&Endpoint::describe_resource>, open},
      {verb::get, "/mcp/line", call<&Endpoint::line>, stream},
      {verb::get, "/sse", call<&Endpoint::events>, stream},
      {verb::post, "/message", call<&Endpoint::message>, message},
  };
}

void add_routes(http::Router& router, Endpoint& endpoint) {
  http::add_routes(router, routes(), endpoint, "mcp");
}

}  // namespace cove::mcp_http
