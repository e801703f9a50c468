#include "doors/jupyter/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/random_name.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "doors/jupyter/contents.hpp"
#include "doors/jupyter/specs.hpp"
#include "json/fields.hpp"
#include "run/cell.hpp"
#include "sandbox/poll_interval.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
using sandbox::Kernel;

constexpr std::size_t kMaxRequests = 1000;           // that wait
constexpr std::size_t kMaxRequestBytes = 32U << 20;  // of them
constexpr std::size_t kMaxReplay = 8U << 20;         // of outputs for clients that are away
constexpr std::size_t kMaxReplayReplies = 1U << 20;  // of replies and states beside them
constexpr std::size_t kMaxRestarts = 5;              // after deaths, in a row
constexpr std::chrono::seconds kWatchInterval{5};    // between two looks at whether anybody is still connected
constexpr std::chrono::milliseconds kClientWait{500};

constexpr auto kQuestions = std::to_array<std::string_view>(
    {"complete", "inspect", "is_complete", "history", "comm_info", "comm_open", "comm_msg", "comm_close"});

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

bool is_output(std::string_view type) {
  return type != "status" && !type.ends_with("_reply") && type != "input_request";
}

}  // namespace

Hub::Hub(sandbox::Core& core, std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<Kernel> kernel, std::string id,
         Budget& replay, std::function<void()> remove)
    : core_(core),
      sandbox_(std::move(sandbox)),
      kernel_(std::move(kernel)),
      id_(std::move(id)),
      remove_(std::move(remove)),
      replay_budget_(replay),
      last_activity_(std::chrono::system_clock::now()) {}

// --- clients ---------------------------------------------------------------------------------------------------------

void Hub::attach(const std::shared_ptr<Client>& client) {
  const auto same = std::ranges::find_if(
      clients_, [&](const auto& other) { return !client->session().empty() && other->session() == client->session(); });
  if (same != clients_.end()) {
    const auto older = *same;
    clients_.erase(same);
    older->close(1000, "another connection of this session took its place");
  }
  if (replay_session_ && *replay_session_ == client->session()) {
    for (const auto& message : replay_)
      client->send(std::make_shared<const Frame>(encode(client->framing(), *message)));
    if (replay_lost_ > 0) {
      const auto notice =
          fmt::format("[{} bytes of output were discarded while no client was connected]\n", replay_lost_);
      const auto message = make("iopub", "stream", {}, {{"name", "stderr"}, {"text", notice}});
      client->send(std::make_shared<const Frame>(encode(client->framing(), *message)));
    }
  }
  forget_replay();
  clients_.push_back(client);
  if (!in_use_) in_use_.emplace(sandbox_);
  last_activity_ = std::chrono::system_clock::now();
  if (!std::exchange(watching_, true)) core_.tasks.spawn("watch a kernel for its clients", watch(shared_from_this()));
}

void Hub::detach(const std::shared_ptr<Client>& client) {
  if (std::erase(clients_, client) == 0 || !clients_.empty()) return;
  in_use_.reset();
  if (!client->session().empty() && !closed_) replay_session_ = client->session();
}

void Hub::forget_replay() {
  replay_.clear();
  replay_charge_.release();
  replay_bytes_ = replay_lost_ = 0;
  replay_session_.reset();
}

// --- requests --------------------------------------------------------------------------------------------------------

void Hub::receive(const std::shared_ptr<Client>& client, Message message) {
  last_activity_ = std::chrono::system_clock::now();
  const auto type = message.type();
  Request request{
      .client = client, .session = client->session(), .principal = client->principal(), .message = std::move(message)};
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
    const auto done = kernel_->interrupt();
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
  while (!self->queue_.empty() && !self->closed_) {
    const auto request = std::move(self->queue_.front());
    self->queue_.pop_front();
    self->queued_bytes_ -= std::min(self->queued_bytes_, request.message.bytes());
    self->running_ = &request;
    co_await self->serve(request);
    self->running_ = nullptr;
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
    if (std::ranges::find(kQuestions, op) != kQuestions.end()) {
      auto content = co_await ask(request, op);
      if (!is_comm(op)) send_to(request, make("shell", reply_type(type), parent, std::move(content)));
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

Task<json::object> Hub::run_cell(const Request& request, bool silent) {
  const auto& content = request.message.content;
  const auto& parent = request.message.header;
  const auto refused = [&](const Error& error) {
    auto reply = error_content(error.code == Errc::quota ? "QuotaError" : "KernelError", error.message);
    publish(parent, "error", error_output(reply));
    reply["execution_count"] = 0;
    return reply;
  };
  run::Caller caller{.principal = request.principal};
  auto ticket = co_await run::admit(core_, caller);
  if (!ticket) co_return refused(ticket.error());

  sandbox::ExecuteRequest order;
  order.code = std::string(content.at("code").as_string());
  order.silent = silent;
  order.store_history = flag(content, "store_history", !silent);
  order.allow_stdin = flag(content, "allow_stdin", true);
  order.colour = true;
  order.stay = true;
  order.limits.retention = sandbox::Retention::until_taken;
  if (const auto* expressions = content.if_contains("user_expressions");
      expressions != nullptr && expressions->is_object())
    order.user_expressions = expressions->as_object();
  run::Workplace workplace(std::move(*ticket), sandbox_);
  auto cell = run::Cell::begin(caller, std::move(workplace), kernel_, std::move(order));
  if (!cell) co_return refused(cell.error());

  const auto execution = cell->execution();
  bool shown = silent;
  while (true) {
    auto events = execution->take_events();
    const bool speaks =
        std::ranges::any_of(events, [](const auto& e) { return e.type != "queued" && e.type != "started"; });
    if (!shown && (execution->count() || speaks || execution->end())) {
      shown = true;
      publish(parent, "execute_input",
              {{"code", content.at("code")}, {"execution_count", execution->count().value_or(0)}});
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
  auto reply = execute_reply(*execution);
  if (execution->end()->reason != sandbox::Reason::exited)
    publish(parent, "error", error_output(reply));
  else
    restarts_ = 0;
  co_return reply;
}

// Without a client of the one that runs the cell there is nobody to ask.
void Hub::ask_for_input(const Request& request, json::object content) {
  const bool connected = request.client.lock() && !request.client.lock()->over();
  const bool comes_back =
      !request.session.empty() && (replay_session_ == request.session || find_client(request) != nullptr);
  if (!connected && !comes_back) {
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
  if (is_comm(op) && !request.message.buffers.empty()) {
    json::array buffers;
    for (const auto& buffer : request.message.buffers) buffers.emplace_back(base64(buffer));
    content["buffers"] = std::move(buffers);
  }
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

// --- the kernel's life -----------------------------------------------------------------------------------------------

Task<> Hub::watch(std::shared_ptr<Hub> self) {
  while (!self->clients_.empty() && !self->closed_) {
    if (self->kernel_->state() == Kernel::State::dead && !self->kernel_->restarting()) co_await self->on_death();
    if (self->closed_) break;
    co_await self->kernel_->changed().wait_until(Clock::now() + kWatchInterval);
  }
  self->watching_ = false;
}

// Requests that were under way have been answered by then: their executions ended with the kernel.
Task<> Hub::on_death() {
  const bool gone = sandbox_->state() != sandbox::State::running;
  if (!gone && restarts_++ < kMaxRestarts) {
    publish_status({}, "restarting");
    if (const auto done = co_await kernel_->restart()) {
      publish_status({}, "idle");
      co_return;
    }
  }
  if (!closed_) close();
}

Task<Result<>> Hub::restart() {
  const auto self = shared_from_this();
  publish_status({}, "restarting");
  abort_waiting();
  const auto done = co_await kernel_->restart();
  restarts_ = 0;
  publish_status({}, done ? "idle" : "dead");
  last_activity_ = std::chrono::system_clock::now();
  co_return done;
}

Task<> Hub::restart_later(std::shared_ptr<Hub> self) {
  [[maybe_unused]] const auto done = co_await self->restart();  // clients were told of either
}

void Hub::close() {
  if (std::exchange(closed_, true)) return;
  publish_status({}, "dead");
  for (const auto& client : std::exchange(clients_, {})) client->close(1000, "the kernel has ended");
  in_use_.reset();
  forget_replay();
}

// --- messages --------------------------------------------------------------------------------------------------------

// One value for everything that one interpreter says, and what we say in its name.
std::string Hub::run_session() const {
  Sha256 hash;
  hash.add(fmt::format("{}/{}", id_, kernel_->process_number()));
  return hash.hex().substr(0, 32);
}

std::shared_ptr<const Message> Hub::make(std::string_view channel, std::string_view type, const json::object& parent,
                                         json::object content, std::vector<std::string> buffers) const {
  auto message = std::make_shared<Message>();
  message->channel = channel;
  message->header = {{"msg_id", random_name("")},
                     {"msg_type", type},
                     {"username", "kernel"},
                     {"session", run_session()},
                     {"date", iso_micros(std::chrono::system_clock::now())},
                     {"version", "5.3"}};
  message->parent_header = parent;
  message->content = std::move(content);
  message->buffers = std::move(buffers);
  return message;
}

void Hub::publish_event(const json::object& parent, sandbox::ExecutionEvent event, std::optional<std::int64_t> count) {
  auto said = published(std::move(event), count);
  if (!said.type.empty()) publish(parent, said.type, std::move(said.content), std::move(said.buffers));
}

void Hub::publish(const json::object& parent, std::string_view type, json::object content,
                  std::vector<std::string> buffers) {
  send_all(make("iopub", type, parent, std::move(content), std::move(buffers)));
}

void Hub::publish_status(const json::object& parent, std::string_view state) {
  publish(parent, "status", {{"execution_state", state}});
}

std::shared_ptr<Client> Hub::find_client(const Request& request) const {
  if (const auto client = request.client.lock(); client && !client->over()) return client;
  if (request.session.empty()) return nullptr;
  const auto same = std::ranges::find(clients_, request.session, &Client::session);
  return same == clients_.end() ? nullptr : *same;
}

void Hub::send_to(const Request& request, std::shared_ptr<const Message> message) {
  if (const auto client = find_client(request)) {
    client->send(std::make_shared<const Frame>(encode(client->framing(), *message)));
  } else if (!request.session.empty() && replay_session_ == request.session) {
    keep(std::move(message));
  }
}

void Hub::send_all(const std::shared_ptr<const Message>& message) {
  if (clients_.empty()) return keep(message);
  std::array<std::shared_ptr<const Frame>, 2> frames;
  for (const auto& client : clients_) {
    auto& frame = frames.at(client->framing() == Framing::v1 ? 1 : 0);
    if (!frame) frame = std::make_shared<const Frame>(encode(client->framing(), *message));
    client->send(frame);
  }
}

// For the client that left last, should it come back.
void Hub::keep(std::shared_ptr<const Message> message) {
  if (!replay_session_ || closed_) return;
  const auto bytes = message->bytes();
  const auto most = is_output(message->type()) ? kMaxReplay : kMaxReplay + kMaxReplayReplies;
  if (replay_bytes_ == 0) replay_charge_ = replay_budget_.open(sandbox_->tenant());
  if (replay_bytes_ + bytes > most || !replay_charge_.grow(bytes)) {
    replay_lost_ += bytes;
    return;
  }
  replay_bytes_ += bytes;
  replay_.push_back(std::move(message));
}

Task<> Hub::wait_for_clients() {
  while (true) {
    const auto slow = std::ranges::find_if(clients_, [](const auto& client) { return client->full(); });
    if (slow == clients_.end()) co_return;
    const auto client = *slow;
    co_await client->changed().wait_until(Clock::now() + kClientWait);
  }
}

}  // namespace cove::doors::jupyter
