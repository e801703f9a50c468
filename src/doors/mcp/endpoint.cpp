#include "doors/mcp/endpoint.hpp"

#include <fmt/format.h>

#include <charconv>

#include "async/deadline.hpp"
#include "base/random.hpp"
#include "doors/mcp/headers.hpp"
#include "mcp/envelope.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Code;
using cove::mcp::Fault;
using cove::mcp::Peer;
using cove::mcp::UnknownId;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKeepAlive{15};
constexpr std::chrono::milliseconds kLook{250};
constexpr std::chrono::minutes kReplay{5};  // how long after its end a stream can be asked for again
constexpr std::chrono::seconds kLookForIdle{10};
constexpr std::size_t kDepth = 256;
constexpr std::size_t kBodyLimit = std::size_t{4} << 20;

std::string random_name() {
  return fmt::format("{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
}

Task<> send(http::Exchange& exchange, http::Response response) {
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

Task<> refuse(http::Exchange& exchange, unsigned status, Fault fault, json::value id = nullptr) {
  auto message = cove::mcp::error_message(id, fault, UnknownId::null);
  co_await send(exchange, http::json_response(status, message));
}

// Of a modern answer. Faults of the envelope are 400 and never come this far.
unsigned status_of(const json::value& answer) {
  const auto* object = answer.if_object();
  const auto* error = object != nullptr ? object->if_contains("error") : nullptr;
  if (error == nullptr) return 200;
  switch (static_cast<Code>(error->as_object().at("code").to_number<int>())) {
    case Code::method_not_found:
      return 404;
    case Code::invalid_request:
    case Code::missing_capability:
      return 400;
    default:
      return 200;
  }
}

std::string event_text(std::string_view id, std::string_view data) {
  return id.empty() ? fmt::format("event: message\ndata: {}\n\n", data)
                    : fmt::format("event: message\nid: {}\ndata: {}\n\n", id, data);
}

http::Response stream_head() {
  return {.status = 200,
          .content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache, no-transform"}, {"X-Accel-Buffering", "no"}}};
}

std::optional<json::value> parse(std::string_view text) {
  json::parse_options options;
  options.max_depth = kDepth;
  boost::system::error_code failed;
  auto value = json::parse(text, failed, {}, options);
  if (failed) return std::nullopt;
  return value;
}

bool is_request(const json::value& value) {
  const auto* object = value.if_object();
  return object != nullptr && (object->contains("id") || !object->contains("method")) && !object->contains("result") &&
         !object->contains("error");
}

bool has_enveloped(const json::array& batch) {
  for (const auto& element : batch) {
    const auto* object = element.if_object();
    const auto* params = object != nullptr ? object->if_contains("params") : nullptr;
    if (params != nullptr && params->is_object() && cove::mcp::has_envelope(params->as_object())) return true;
  }
  return false;
}

}  // namespace

// A posted message, read as far as the transport must know it.
struct Endpoint::Posted {
  json::value value;
  json::value id = nullptr;
  std::string method;
  json::object params;
  bool asks = false;     // something in it wants an answer
  bool streams = false;  // it may be told something meanwhile, and takes events; or takes nothing else

  explicit Posted(json::value posted) : value(std::move(posted)) {
    if (const auto* batch = value.if_array()) {
      for (const auto& element : *batch) asks = asks || is_request(element);
      return;
    }
    asks = is_request(value);
    const auto* object = value.if_object();
    if (object == nullptr) return;
    if (const auto* said = object->if_contains("id")) id = *said;
    if (const auto* said = object->if_contains("method"); said != nullptr && said->is_string())
      method = std::string(said->as_string());
    if (const auto* said = object->if_contains("params"); said != nullptr && said->is_object())
      params = said->as_object();
  }

  [[nodiscard]] bool wants_to_be_told() const {
    const auto* meta = cove::mcp::meta_of(params);
    return meta != nullptr && (meta->contains("progressToken") || meta->contains(cove::mcp::envelope_key("logLevel")));
  }
};

Endpoint::Endpoint(boost::asio::any_io_executor executor, async::TaskGroup& tasks, cove::mcp::Service& service,
                   Options options)
    : executor_(std::move(executor)), tasks_(tasks), service_(service), options_(options) {}

Task<> Endpoint::post(http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto taken = accepts(request);
  if (!taken.json && !taken.events) {
    Fault fault{.code = Code::no_session,
                .message = "Not acceptable: Accept must list application/json or text/event-stream"};
    co_return co_await refuse(exchange, 406, std::move(fault));
  }
  if (!is_json(request)) {
    Fault fault{.code = Code::no_session, .message = "Unsupported media type: Content-Type must be application/json"};
    co_return co_await refuse(exchange, 415, std::move(fault));
  }
  const auto body = co_await exchange.read_body(kBodyLimit);
  if (!body && body.error().code == Errc::unavailable) co_return;
  if (!body) {
    Fault fault{.code = Code::invalid_request, .message = body.error().message};
    co_return co_await refuse(exchange, body.error().code == Errc::over_limit ? 413 : 400, std::move(fault));
  }
  auto value = parse(*body);
  if (!value) {
    Fault fault{.code = Code::parse_error, .message = "Parse error"};
    co_return co_await refuse(exchange, 400, std::move(fault));
  }
  Posted posted(std::move(*value));
  posted.streams = taken.events && (!taken.json || posted.wants_to_be_told());
  if (const auto* batch = posted.value.if_array(); batch != nullptr && (batch->empty() || has_enveloped(*batch))) {
    Fault fault{.code = Code::invalid_request, .message = "Invalid request: an empty batch, or modern requests in one"};
    co_return co_await refuse(exchange, 400, std::move(fault));
  }
  const auto version = request.header("MCP-Protocol-Version");
  const bool modern_header = version == name_of(cove::mcp::kModern);
  const bool enveloped = cove::mcp::has_envelope(posted.params);
  if (posted.method == "initialize" && !(enveloped && cove::mcp::read_envelope(posted.params))) {
    if (!modern_header) co_return co_await post_legacy(exchange, std::move(posted));
    Fault fault{.code = Code::header_mismatch, .message = "initialize is not of the revision that the header names"};
    co_return co_await refuse(exchange, 400, std::move(fault), posted.id);
  }
  if (enveloped) co_return co_await post_modern(exchange, std::move(posted));
  if (modern_header) co_return co_await refuse(exchange, 400, cove::mcp::missing_envelope(), posted.id);
  co_await post_legacy(exchange, std::move(posted));
}

Task<> Endpoint::post_modern(http::Exchange& exchange, Posted posted) {
  auto fault = mismatch(exchange.request(), posted.method, posted.params);
  if (fault) co_return co_await refuse(exchange, 400, std::move(*fault), posted.id);
  if (!posted.asks) {
    http::Response taken{.status = 202, .content_type = ""};
    co_return co_await send(exchange, std::move(taken));
  }
  Peer::Options options{.tenant = exchange.request().principal.tenant, .key_id = exchange.request().principal.key_id};
  auto peer = std::make_shared<Peer>(executor_, tasks_, service_, std::move(options));
  co_await answer(exchange, std::move(posted), std::move(peer), nullptr);
}

Task<> Endpoint::post_legacy(http::Exchange& exchange, Posted posted) {
  const auto& request = exchange.request();
  const auto version = request.header("MCP-Protocol-Version");
  if (!version.empty() && !cove::mcp::find_revision(version)) {
    Fault fault{.code = Code::no_session, .message = fmt::format("Unsupported protocol version: {}", version)};
    co_return co_await refuse(exchange, 400, std::move(fault), posted.id);
  }
  if (posted.method == "initialize" && posted.asks) {
    if (sessions_.size() >= options_.sessions) {
      Fault fault{.code = Code::internal, .message = "Too many sessions: end one, or try again later"};
      co_return co_await refuse(exchange, 503, std::move(fault), posted.id);
    }
    auto session = std::make_shared<Session>();
    Peer::Options options{.tenant = request.principal.tenant, .key_id = request.principal.key_id};
    session->peer = std::make_shared<Peer>(executor_, tasks_, service_, std::move(options));
    session->used = Clock::now();
    session->name = random_name();
    sessions_[session->name] = session;
    co_return co_await answer(exchange, std::move(posted), session->peer, session);
  }
  const auto session = find(request);
  if (!session) {
    const bool named = !request.header("Mcp-Session-Id").empty();
    Fault fault = named
                      ? Fault{.code = Code::session_not_found, .message = "Session not found: initialize anew"}
                      : Fault{.code = Code::no_session, .message = "Bad request: the header Mcp-Session-Id is missing"};
    co_return co_await refuse(exchange, named ? 404 : 400, std::move(fault), posted.id);
  }
  co_await answer(exchange, std::move(posted), session->peer, session);
}

Task<> Endpoint::answer(http::Exchange& exchange, Posted posted, std::shared_ptr<Peer> peer,
                        std::shared_ptr<Session> session) {
  if (posted.streams && posted.asks) {
    auto stream = session ? new_stream(*session) : std::make_shared<Stream>(executor_, "");
    peer->take(posted.value, std::make_shared<StreamOutlet>(stream));
    co_return co_await follow(exchange, std::move(stream), 0, session, session ? nullptr : peer);
  }
  const auto answer = std::make_shared<Answer>(executor_);
  peer->take(posted.value, std::make_shared<AnswerOutlet>(answer));
  while (!answer->over) {
    co_await answer->changed.wait_until(Clock::now() + kLook);
    if (!exchange.client_gone()) continue;
    if (!session) peer->cancel_all();  // modern: to leave is to cancel
    co_return;
  }
  if (answer->value.is_null()) {
    http::Response taken{.status = 202, .content_type = ""};
    co_return co_await send(exchange, std::move(taken));
  }
  auto response = http::json_response(session ? 200 : status_of(answer->value), answer->value);
  if (session && posted.method == "initialize") response.headers.emplace_back("Mcp-Session-Id", session->name);
  co_await send(exchange, std::move(response));
}

Task<> Endpoint::follow(http::Exchange& exchange, std::shared_ptr<Stream> stream, std::uint64_t after,
                        std::shared_ptr<Session> session, std::shared_ptr<Peer> only_for_this) {
  const auto reader = stream->take_reading();
  auto head = stream_head();
  if (session) head.headers.emplace_back("Mcp-Session-Id", session->name);
  if (!co_await exchange.start(std::move(head))) co_return;
  auto quiet_since = Clock::now();
  while (stream->reads(reader)) {
    const auto events = stream->after(after);
    std::string text;
    for (const auto& event : events) {
      text += event_text(session ? stream->id_of(event) : "", event.data);
      after = event.number;
    }
    if (events.empty() && stream->finished()) break;
    if (events.empty() && Clock::now() > quiet_since + kKeepAlive) text = http::sse_comment();
    if (session) session->used = Clock::now();
    if (!text.empty()) {
      quiet_since = Clock::now();
      if (!co_await exchange.write(text)) break;
    } else {
      co_await stream->changed().wait_until(Clock::now() + kLook);
    }
    if (exchange.client_gone()) break;
  }
  if (only_for_this && !stream->finished()) only_for_this->cancel_all();
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

Task<> Endpoint::get(http::Exchange& exchange) {
  const auto& request = exchange.request();
  if (!accepts(request).events) {
    Fault fault{.code = Code::no_session, .message = "Not acceptable: Accept must list text/event-stream"};
    co_return co_await refuse(exchange, 406, std::move(fault));
  }
  const auto session = find(request);
  if (!session) {
    const bool named = !request.header("Mcp-Session-Id").empty();
    Fault fault{
        .code = named ? Code::session_not_found : Code::no_session,
        .message = named ? "Session not found: initialize anew" : "Bad request: the header Mcp-Session-Id is missing"};
    co_return co_await refuse(exchange, named ? 404 : 400, std::move(fault));
  }
  const auto last = request.header("Last-Event-ID");
  if (last.empty()) {
    if (!session->standalone) session->standalone = new_stream(*session);
    const auto standalone = session->standalone;
    co_return co_await follow(exchange, standalone, standalone->last(), session, nullptr);
  }
  const auto cut = last.rfind('_');
  std::uint64_t number = 0;
  const auto text = last.substr(cut == std::string_view::npos ? last.size() : cut + 1);
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto found = session->streams.find(std::string(last.substr(0, cut)));
  if (text.empty() || wrong != std::errc() || end != text.data() + text.size() || found == session->streams.end()) {
    Fault fault{.code = Code::no_session, .message = "Bad request: no event of this session has the Last-Event-ID"};
    co_return co_await refuse(exchange, 400, std::move(fault));
  }
  const auto stream = found->second;
  co_await follow(exchange, stream, number, session, nullptr);
}

Task<> Endpoint::remove(http::Exchange& exchange) {
  const auto session = find(exchange.request());
  if (!session) {
    Fault fault{.code = Code::session_not_found, .message = "Session not found"};
    co_return co_await refuse(exchange, exchange.request().header("Mcp-Session-Id").empty() ? 400 : 404,
                              std::move(fault));
  }
  end(session);
  http::Response done{.status = 204, .content_type = ""};
  co_await send(exchange, std::move(done));
}

void Endpoint::end(const std::shared_ptr<Session>& session) {
  session->peer->cancel_all();
  for (const auto& [name, stream] : session->streams) stream->finish();
  sessions_.erase(session->name);
}

// A name alone opens nothing: it is its owner's.
std::shared_ptr<Endpoint::Session> Endpoint::find(const http::Request& request) {
  const auto found = sessions_.find(std::string(request.header("Mcp-Session-Id")));
  if (found == sessions_.end()) return nullptr;
  const auto& session = found->second;
  if (session->peer->tenant() != request.principal.tenant || session->peer->key_id() != request.principal.key_id)
    return nullptr;
  session->used = Clock::now();
  return session;
}

std::shared_ptr<Stream> Endpoint::new_stream(Session& session) {
  std::erase_if(session.streams, [](const auto& entry) { return entry.second->stale(Clock::now() - kReplay); });
  auto stream = std::make_shared<Stream>(executor_, std::to_string(session.next_stream++));
  session.streams[stream->name()] = stream;
  return stream;
}

Task<> Endpoint::keep_time() {
  while (true) {
    co_await async::sleep_for(kLookForIdle);
    std::vector<std::shared_ptr<Session>> idle;
    for (const auto& [name, session] : sessions_) {
      if (session->peer->in_flight() == 0 && session->used + options_.idle < Clock::now()) idle.push_back(session);
    }
    for (const auto& session : idle) end(session);
  }
}

void add_routes(http::Router& router, Endpoint* endpoint) {
  using http::verb;
  auto* e = endpoint;
  const http::RouteOptions options{.body_limit = kBodyLimit};
  router.add(verb::post, "/mcp", [e](auto& exchange) { return e->post(exchange); }, options);
  router.add(verb::get, "/mcp", [e](auto& exchange) { return e->get(exchange); }, {.head = false});
  router.add(verb::delete_, "/mcp", [e](auto& exchange) { return e->remove(exchange); });
  router.add(verb::get, "/mcp/line", [e](auto& exchange) { return e->line(exchange); }, {.head = false});
}

}  // namespace cove::doors::mcp
