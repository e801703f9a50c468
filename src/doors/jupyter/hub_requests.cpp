// What a hub does with the requests of its clients.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doors/jupyter/contents.hpp"
#include "doors/jupyter/hub.hpp"
#include "doors/jupyter/specs.hpp"
#include "json/fields.hpp"
#include "sandbox/poll_interval.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxRequests = 1000;           // that wait
constexpr std::size_t kMaxRequestBytes = 32U << 20;  // of them

constexpr auto kQuestions =
    std::to_array<std::string_view>({"complete", "inspect", "is_complete", "history", "comm_info"});

bool is_comm(std::string_view op) {
  return op == "comm_open" || op == "comm_msg" || op == "comm_close";
}

// The answer of a kernel that cannot be asked this.
json::object empty_answer(std::string_view op, const json::object& content) {
  if (op == "complete") {
    const auto* cursor = content.if_contains("cursor_pos");
    const auto at = cursor != nullptr && cursor->is_int64() ? cursor->as_int64() : 0;
    return {{"status", "ok"},
            {"matches", json::array()},
            {"cursor_start", at},
            {"cursor_end", at},
            {"metadata", json::object()}};
  }
  if (op == "inspect")
    return {{"status", "ok"}, {"found", false}, {"data", json::object()}, {"metadata", json::object()}};
  if (op == "is_complete") return {{"status", "unknown"}};
  if (op == "history") return {{"status", "ok"}, {"history", json::array()}};
  return {{"status", "ok"}, {"comms", json::object()}};
}

bool answers(sandbox::KernelLanguage language, std::string_view op) {
  using sandbox::KernelLanguage;
  return language == KernelLanguage::python || (language == KernelLanguage::bash && op == "is_complete");
}

bool flag(const json::object& content, std::string_view name, bool otherwise) {
  const auto* value = content.if_contains(name);
  return value != nullptr && value->is_bool() ? value->as_bool() : otherwise;
}

std::string reply_type(std::string_view request) {
  constexpr std::string_view kRequest = "_request";
  const auto stem = request.ends_with(kRequest) ? request.substr(0, request.size() - kRequest.size()) : request;
  return std::string(stem) + "_reply";
}

}  // namespace

void Hub::receive(const std::shared_ptr<Client>& client, Message message, Budget::Charge charge) {
  last_activity_ = std::chrono::system_clock::now();
  const auto type = message.type();
  Request request{.client = client,
                  .session = client->session(),
                  .principal = client->principal(),
                  .message = std::move(message),
                  .charge = std::move(charge)};
  const auto& channel = request.message.channel;
  if (channel == "stdin") {
    if (type == "input_reply") take_input(request);
  } else if (channel == "control" || type == "kernel_info_request" || type == "shutdown_request" ||
             type == "interrupt_request") {
    serve_control(request);
  } else if (channel == "shell") {
    const auto bytes = request.message.bytes();
    if (queue_.size() >= kMaxRequests || queued_bytes_ + bytes > kMaxRequestBytes)
      return answer_at_once(request, error_content("QueueFull", "too many requests wait in this kernel"));
    queued_bytes_ += bytes;
    queue_.push_back(std::move(request));
    if (!std::exchange(working_, true)) core_.tasks.spawn("answer a kernel's clients", work(shared_from_this()));
  }
}

// Only whoever runs the cell is asked, and may answer.
void Hub::take_input(const Request& request) {
  if (running_ == nullptr) return;
  const bool same_client = running_->client.lock() == request.client.lock();
  const bool same_session = !request.session.empty() && running_->session == request.session;
  if (!same_client && !same_session) return;
  const auto* value = request.message.content.if_contains("value");
  if (value == nullptr || !value->is_string()) return;
  // A reply that comes too late, when nothing waits for it any more, is nobody's.
  [[maybe_unused]] const auto taken = kernel_->reply_input(std::string(value->as_string()));
}

void Hub::serve_control(const Request& request) {
  const auto type = request.message.type();
  if (type == "kernel_info_request") return answer_at_once(request, kernel_info(*kernel_));
  if (type == "interrupt_request") {
    const auto done = kernel_->interrupt(journal::actor_of(request.principal));
    return answer_at_once(request,
                          done ? json::object{{"status", "ok"}} : error_content("KernelError", done.error().message));
  }
  if (type == "shutdown_request") {
    const bool again = flag(request.message.content, "restart", false);
    answer_at_once(request, {{"status", "ok"}, {"restart", again}});
    if (again)
      core_.tasks.spawn("restart a kernel", restart_later(shared_from_this()));
    else
      remove_();
    return;
  }
  if (type.ends_with("_request"))
    answer_at_once(request, error_content("NotImplementedError", fmt::format("no such request: {}", type)));
}

// Whatever the kernel does: its state is told to this client alone, and the true one again after it.
void Hub::answer_at_once(const Request& request, json::object reply) {
  const auto& parent = request.message.header;
  send_to(request, make("iopub", "status", parent, {{"execution_state", "busy"}}));
  send_to(request, make(request.message.channel, reply_type(request.message.type()), parent, std::move(reply)));
  send_to(request, make("iopub", "status", parent, {{"execution_state", "idle"}}));
  if (running_ != nullptr)
    send_to(request, make("iopub", "status", running_->message.header, {{"execution_state", "busy"}}));
}

Task<> Hub::work(std::shared_ptr<Hub> self) {
  // However it ends, an exception included: nothing points to the request any more, and the next one is served.
  struct Done {
    Hub& hub;
    ~Done() {
      hub.running_ = nullptr;
      hub.working_ = false;
    }
  };
  while (!self->queue_.empty() && !self->closed_) {
    const auto request = std::move(self->queue_.front());
    self->queue_.pop_front();
    self->queued_bytes_ -= std::min(self->queued_bytes_, request.message.bytes());
    const Done done{*self};
    self->working_ = true;
    self->running_ = &request;
    co_await self->serve(request);
    self->last_activity_ = std::chrono::system_clock::now();
  }
  self->working_ = false;
}

Task<> Hub::serve(const Request& request) {
  const auto type = request.message.type();
  const auto& parent = request.message.header;
  publish_status(parent, "busy");
  bool failed = false;
  if (type == "execute_request") {
    auto content = co_await execute(request);
    failed = content.at("status") == "error";
    send_to(request, make("shell", "execute_reply", parent, std::move(content)));
  } else {
    const auto op = type.ends_with("_request") ? type.substr(0, type.size() - 8) : type;
    if (is_comm(op)) {
      if (kernel_->language() == sandbox::KernelLanguage::python) co_await run_comm(request, op);
    } else if (std::ranges::find(kQuestions, op) != kQuestions.end()) {
      auto content = co_await ask(request, op);
      send_to(request, make("shell", reply_type(type), parent, std::move(content)));
    } else if (type.ends_with("_request")) {
      send_to(request, make("shell", reply_type(type), parent,
                            error_content("NotImplementedError", fmt::format("no such request: {}", type))));
    }
  }
  publish_status(parent, "idle");
  if (failed && flag(request.message.content, "stop_on_error", true)) abort_waiting();
  co_await wait_for_clients();
}

// As kernels do after an error: what was sent in advance would run on wrong assumptions.
void Hub::abort_waiting() {
  for (auto request = queue_.begin(); request != queue_.end();) {
    if (request->message.type() != "execute_request") {
      ++request;
      continue;
    }
    publish_status(request->message.header, "busy");
    send_to(*request, make("shell", "execute_reply", request->message.header,
                           {{"status", "aborted"},
                            {"execution_count", 0},
                            {"ename", "Aborted"},
                            {"evalue", ""},
                            {"traceback", json::array()}}));
    publish_status(request->message.header, "idle");
    queued_bytes_ -= std::min(queued_bytes_, request->message.bytes());
    request = queue_.erase(request);
  }
}

Task<json::object> Hub::execute(const Request& request) {
  const auto& content = request.message.content;
  const auto* code = content.if_contains("code");
  if (code == nullptr || !code->is_string()) co_return error_content("ValueError", "code must be a string");
  const bool silent = flag(content, "silent", false);
  auto reply = co_await run_cell(request, silent);
  co_return reply;
}

json::object Hub::refused(const Request& request, const Error& error) {
  auto reply = error_content(error.code == Errc::quota ? "QuotaError" : "KernelError", error.message);
  publish(request.message.header, "error", error_output(reply));
  reply["execution_count"] = 0;
  return reply;
}

Task<Result<run::Cell>> Hub::begin_cell(const Request& request, sandbox::ExecuteRequest order) {
  if (!core_.authority.still_valid(request.principal)) co_return fail(Errc::denied, "the key was revoked");
  if (core_.draining()) co_return fail(Errc::unavailable, "the server is shutting down");
  run::Caller caller{.principal = request.principal};
  auto ticket = co_await run::admit(core_, caller);
  if (!ticket) co_return tl::unexpected<Error>(ticket.error());
  order.colour = true;
  order.stay = true;
  order.limits.retention = sandbox::Retention::until_taken;
  run::Workplace workplace(std::move(*ticket), sandbox_);
  co_return run::Cell::begin(caller, std::move(workplace), kernel_, std::move(order));
}

// To its end.
Task<> Hub::publish_cell(const Request& request, std::shared_ptr<sandbox::Execution> execution, bool shows_input) {
  const auto& parent = request.message.header;
  bool shown = !shows_input;
  while (true) {
    auto events = execution->take_events();
    const bool speaks =
        std::ranges::any_of(events, [](const auto& e) { return e.type != "queued" && e.type != "started"; });
    if (!shown && (execution->count() || speaks || execution->end())) {
      shown = true;
      publish(parent, "execute_input",
              {{"code", request.message.content.at("code")}, {"execution_count", execution->count().value_or(0)}});
    }
    for (auto& event : events) {
      if (event.type == "input_request")
        ask_for_input(request, std::move(event.content));
      else
        publish_event(parent, std::move(event), execution->count());
      co_await wait_for_clients();
    }
    if (!execution->events().empty() || (!shown && execution->count())) continue;
    if (execution->end()) break;
    co_await execution->changed().wait_until(Clock::now() + sandbox::kPollInterval);
  }
}

Task<json::object> Hub::run_cell(const Request& request, bool silent) {
  const auto& content = request.message.content;
  sandbox::ExecuteRequest order;
  order.code = std::string(content.at("code").as_string());
  order.silent = silent;
  order.store_history = flag(content, "store_history", !silent);
  order.allow_stdin = flag(content, "allow_stdin", true);
  if (const auto* expressions = content.if_contains("user_expressions");
      expressions != nullptr && expressions->is_object())
    order.user_expressions = expressions->as_object();
  auto cell = co_await begin_cell(request, std::move(order));
  if (!cell) co_return refused(request, cell.error());
  const auto execution = cell->execution();
  co_await publish_cell(request, execution, !silent);
  auto reply = execute_reply(*execution);
  if (execution->end()->reason != sandbox::Reason::exited)
    publish(request.message.header, "error", error_output(reply));
  else
    restarts_ = 0;
  co_return reply;
}

// Its handler is code like any other: it takes a ticket, has no time limit and is heard while it runs.
Task<> Hub::run_comm(const Request& request, std::string op) {
  sandbox::ExecuteRequest order;
  order.comm = std::move(op);
  order.message = request.message.content;
  if (!request.message.buffers.empty()) {
    json::array buffers;
    for (const auto& buffer : request.message.buffers) buffers.emplace_back(base64(buffer));
    order.message["buffers"] = std::move(buffers);
  }
  auto cell = co_await begin_cell(request, std::move(order));
  if (!cell) {
    refused(request, cell.error());
    co_return;
  }
  const auto execution = cell->execution();
  co_await publish_cell(request, execution, false);
  if (execution->end()->reason != sandbox::Reason::exited)
    publish(request.message.header, "error", error_output(execute_reply(*execution)));
}

// Without a client of the one that runs the cell there is nobody to ask.
void Hub::ask_for_input(const Request& request, json::object content) {
  const bool comes_back = !request.session.empty() && replay_session_ == request.session;
  if (find_client(request) == nullptr && !comes_back) {
    [[maybe_unused]] const auto ended = kernel_->reply_input(std::nullopt);
    return;
  }
  json::object asked{{"prompt", cove::json::text_of(content, "prompt")},
                     {"password", flag(content, "password", false)}};
  send_to(request, make("stdin", "input_request", request.message.header, std::move(asked)));
}

Task<json::object> Hub::ask(const Request& request, std::string op) {
  const auto& parent = request.message.header;
  auto content = request.message.content;
  if (!answers(kernel_->language(), op)) co_return empty_answer(op, content);
  const sandbox::Sandbox::Activity activity(sandbox_);
  const auto answered = co_await kernel_->ask(op, std::move(content));
  if (!answered) co_return error_content("KernelError", answered.error().message);
  for (const auto& event : (*answered)->events()) {
    publish_event(parent, event, std::nullopt);
    co_await wait_for_clients();
  }
  auto reply = (*answered)->end()->reply;
  if (!reply.contains("status")) reply["status"] = "ok";
  co_return reply;
}

}  // namespace cove::doors::jupyter
