// The tool server of ipybox: calls of tools by name, and the connection that is asked for approval.
#include <array>
#include <boost/json.hpp>

#include "doors/resources/answers.hpp"
#include "doors/resources/tool_requests.hpp"
#include "json/fields.hpp"

namespace cove::doors::resources {
namespace {

namespace bj = boost::json;

constexpr std::size_t kMaxRunBody = 9U << 20;    // arguments are at most 8 MiB
constexpr std::chrono::seconds kForTheFirst{5};  // that another approver has to leave
constexpr std::size_t kMaxUnsent = 1024;         // requests that an approver has not taken

struct RunRequest {
  std::string server;
  bj::object params;
  tools::Call call;
};

std::variant<RunRequest, fastapi::Problems> parse_run(std::string_view body, bool with_params) {
  fastapi::Checker checker;
  auto parsed = parse_server_params(body);
  if (auto* problems = std::get_if<fastapi::Problems>(&parsed)) return std::move(*problems);
  auto& object = std::get<bj::object>(parsed);
  RunRequest out;
  const auto text = [&](std::string_view name, std::string& into) {
    const auto* value = object.if_contains(name);
    if (value != nullptr && value->is_string())
      into = value->get_string();
    else
      checker.complain(value == nullptr ? "missing" : "string_type", fastapi::place(fastapi::kBody, name),
                       value == nullptr ? "Field required" : "Input should be a valid string", "null");
  };
  const auto member = [&](std::string_view name, bj::object& into) {
    auto* value = object.if_contains(name);
    if (value != nullptr && value->is_object())
      into = std::move(value->get_object());
    else
      checker.complain(value == nullptr ? "missing" : "dict_type", fastapi::place(fastapi::kBody, name),
                       value == nullptr ? "Field required" : "Input should be a valid dictionary", "null");
  };
  text("server_name", out.server);
  if (with_params) member("server_params", out.params);
  text("tool_name", out.call.tool);
  member("tool_args", out.call.arguments);
  if (!checker.good()) return checker.problems();
  out.call.server = out.server;
  return out;
}

// Started on first use, and again when its parameters are others.
Task<Result<>> ensure_server(Services& services, const Work& work, const Principal& principal, RunRequest& request) {
  const auto there = services.tools.find(*work.sandbox, request.server);
  if (there && (request.params.empty() || request.params == there->definition->params)) co_return Result<>();
  COVE_CO_TRY(auto definition, definition_of(request.server, std::move(request.params)));
  definition.writes = false;
  COVE_CO_CHECK(co_await services.tools.add(work.sandbox, principal, std::move(definition)));
  co_return Result<>();
}

Task<Or<RunRequest>> read_run(http::Exchange& exchange, bool with_params) {
  auto body = co_await exchange.read_body(kMaxRunBody);
  if (!body) co_return tl::unexpected<http::Response>(answer_to(body.error(), ""));
  COVE_OR_TRY(auto request, fastapi::valid(parse_run(*body, with_params)));
  request.call.unattended = tools::Approvals::Unattended::fail;
  request.call.actor = journal::actor_of(exchange.request().principal);
  request.call.abandoned = [&exchange] { return exchange.client_gone(); };
  co_return std::move(request);
}

Task<Answer> run_tool(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(auto request, co_await read_run(exchange, true));
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  const auto ready = co_await ensure_server(services, work, exchange.request().principal, request);
  if (!ready) co_return json(200, bj::serialize(bj::object{{"error", ready.error().message}}));
  request.call.sandbox = work.sandbox;
  const auto outcome = co_await services.tools.call(std::move(request.call));
  co_return json(200, bj::serialize(run_answer(outcome)));
}

Task<Answer> approve_tool(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(auto request, co_await read_run(exchange, false));
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  request.call.sandbox = work.sandbox;
  const auto approved = co_await services.tools.approve(std::move(request.call));
  bj::object answer{{"approved", approved.has_value()}};
  if (!approved) {
    for (auto& [name, value] : run_failure(approved.error())) answer[name] = std::move(value);
  }
  co_return json(200, bj::serialize(answer));
}

Task<Answer> reset_tools(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  services.tools.reset(*work.sandbox);
  co_return json(200, R"({"reset":"success"})");
}

// What an approver is to be sent, and whether it is there.
struct Line {
  explicit Line(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
  std::deque<std::string> unsent;
  bool left = false;
  async::Signal changed;
};

void take_answer(Services& services, const std::string& sandbox, std::string_view text) {
  boost::system::error_code failed;
  const auto value = bj::parse(text, failed);
  const auto* object = failed ? nullptr : value.if_object();
  if (object == nullptr) return;
  const auto* result = object->if_contains("result");
  const bool approved = result != nullptr && result->is_bool() && result->get_bool();
  // One that was given up meanwhile is nobody's any more.
  [[maybe_unused]] const auto done =
      services.tools.approvals().answer(sandbox, cove::json::text_of(*object, "id"), approved, "");
}

Task<> read_answers(Services& services, std::shared_ptr<http::WebSocket> socket, std::shared_ptr<Line> line,
                    std::string sandbox) {
  while (auto message = co_await socket->read()) {
    if (message->text) take_answer(services, sandbox, message->data);
  }
  line->left = true;
  line->changed.notify_all();
}

std::string request_text(const tools::ApprovalRequest& request) {
  return bj::serialize(bj::object{
      {"jsonrpc", "2.0"},
      {"method", "approve"},
      {"params", {{"server_name", request.server}, {"tool_name", request.tool}, {"tool_args", request.arguments}}},
      {"id", request.id}});
}

Task<> be_asked(Services& services, std::shared_ptr<http::WebSocket> socket,
                std::shared_ptr<sandbox::Sandbox> sandbox) {
  const auto line = std::make_shared<Line>(sandbox->executor());
  const auto id = sandbox->row().id;
  auto send = [weak = std::weak_ptr(line)](const tools::ApprovalRequest& request) {
    const auto to = weak.lock();
    if (!to) return;
    if (to->unsent.size() >= kMaxUnsent) to->left = true;  // it takes nothing: it is none
    to->unsent.push_back(request_text(request));
    to->changed.notify_all();
  };
  const auto approver = co_await services.tools.approvals().attach(id, std::move(send), kForTheFirst);
  if (!approver) {
    co_await socket->close(1008, "another approver is connected");
    co_return;
  }
  const std::shared_ptr<void> over(
      nullptr, [&services, id, number = *approver](void*) { services.tools.approvals().detach(id, number); });
  services.tasks.spawn("read an approver's answers", read_answers(services, socket, line, id));
  while (!line->left && sandbox->state() != sandbox::State::gone) {
    if (line->unsent.empty()) {
      co_await line->changed.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
      continue;
    }
    const auto text = std::move(line->unsent.front());
    line->unsent.pop_front();
    if (!co_await socket->send_text(text)) break;
  }
  co_await socket->close(1000, "");
  // The reading task uses the exchange: wait until it has ended.
  while (!line->left)
    co_await line->changed.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
}

Task<Answer> approval(Services& services, http::Exchange& exchange) {
  const auto work = co_await begin_work(services, exchange);
  if (!work) co_return tl::unexpected<http::Response>(work.error());
  auto socket = co_await exchange.accept_websocket();
  if (!socket) co_return std::nullopt;
  std::shared_ptr<http::WebSocket> shared = std::move(*socket);
  co_await be_asked(services, std::move(shared), work->sandbox);
  co_return std::nullopt;
}

constexpr http::RouteOptions kScopedRun{.body_limit = kMaxRunBody, .head = false, .scoped = true};
constexpr http::RouteOptions kRun{.body_limit = kMaxRunBody, .head = false};

constexpr auto kToolServerRoutes = std::to_array<Route>({
    {verb::put, "/reset", answered<reset_tools>, kScoped},
    {verb::post, "/run", answered<run_tool>, kScopedRun},
    {verb::post, "/approve", answered<approve_tool>, kScopedRun},
    {verb::get, "/approval", answered<approval>, kScoped},
    {verb::put, "/v1/sandboxes/{id}/resources/reset", answered<reset_tools>, kPlain},
    {verb::post, "/v1/sandboxes/{id}/resources/run", answered<run_tool>, kRun},
    {verb::post, "/v1/sandboxes/{id}/resources/approve", answered<approve_tool>, kRun},
    {verb::get, "/v1/sandboxes/{id}/resources/approval", answered<approval>, kPlain},
});

}  // namespace

Routes tool_server_routes() {
  return kToolServerRoutes;
}

}  // namespace cove::doors::resources
