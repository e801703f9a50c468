#include "sandbox/kernel.hpp"

#include <signal.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace cove::sandbox {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr std::size_t kMostMessage = 32U << 20;
constexpr std::size_t kMostDepth = 80;
constexpr std::size_t kMostQueued = 256;
constexpr std::size_t kRecentBytes = 4U << 20;
constexpr std::size_t kRecentCount = 64;
constexpr std::size_t kBatch = 256U << 10;
constexpr milliseconds kInterruptGrace{2000};  // for a cell to end when it was asked to
constexpr milliseconds kStartTime{30'000};
constexpr milliseconds kLookAgain{250};

// A MIME type as the RFCs have it, and of a length that goes into a header (SECURITY.md KP-14).
bool good_mime(std::string_view name) {
  const auto token = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$&-^_.+").find(c) != std::string_view::npos;
  };
  const auto slash = name.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == name.size() || name.size() > 255) return false;
  const auto parameters = name.find(';');
  const auto plain = name.substr(0, parameters);
  return std::count(plain.begin(), plain.end(), '/') == 1 &&
         std::all_of(plain.begin(), plain.end(), [&](char c) { return c == '/' || token(c); }) &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// Leaves out of a bundle what no reader could use.
void check_bundle(json::object& content) {
  auto* data = content.if_contains("data");
  if (data == nullptr || !data->is_object()) {
    content["data"] = json::object();
    return;
  }
  json::object kept;
  for (auto& [name, value] : data->as_object()) {
    if (good_mime(name)) kept.emplace(name, std::move(value));
  }
  *data = std::move(kept);
}

std::string text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

// What Jupyter calls it, and what we do.
std::string_view event_of(std::string_view type) {
  if (type == "display_data") return "display";
  if (type == "update_display_data") return "update_display";
  if (type == "execute_result") return "result";
  for (const std::string_view same :
       {"error", "clear_output", "input_request", "comm_open", "comm_msg", "comm_close"}) {
    if (type == same) return same;
  }
  return {};
}

// What it is known by holds its id, for a server that comes after us.
ProcessRequest request_for(const std::string& id, const std::vector<std::string>& variables) {
  return {.kind = ProcessKind::kernel,
          .argv = {"python3", id},
          .variables = variables,
          .input = InputMode::none,
          .delivery = Delivery::everything};
}

}  // namespace

Kernel::Kernel(std::shared_ptr<Sandbox> sandbox, std::string id, std::shared_ptr<Process> process)
    : sandbox_(std::move(sandbox)),
      process_(std::move(process)),
      id_(std::move(id)),
      changed_(sandbox_->executor()),
      reader_(kMostMessage),
      // Never one that a server before us gave.
      next_id_(static_cast<std::uint64_t>(unix_millis()) * 1000),
      deadline_(sandbox_->executor()) {}

async::Task<Result<std::shared_ptr<Kernel>>> Kernel::start(std::shared_ptr<Sandbox> sandbox, std::string id,
                                                           std::vector<std::string> variables) {
  auto process = co_await sandbox->start_python(request_for(id, variables));
  if (!process) co_return tl::unexpected<Error>(process.error());
  if (const auto& end = (*process)->end())
    co_return fail(Errc::conflict, end->note.empty() ? "the interpreter did not start" : end->note);
  const auto kernel = std::make_shared<Kernel>(sandbox, std::move(id), std::move(*process));
  kernel->variables_ = std::move(variables);
  sandbox->tasks().spawn("hear a kernel", serve(kernel, kernel->process_));
  if (auto begun = co_await kernel->begin(); !begun) {
    co_await kernel->stop();
    co_return tl::unexpected<Error>(begun.error());
  }
  co_return kernel;
}

std::shared_ptr<Kernel> Kernel::adopt(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Process> process) {
  const auto& words = process->request().argv;
  auto id = words.size() == 2 ? words[1] : fmt::format("p{}", process->number());
  const auto kernel = std::make_shared<Kernel>(std::move(sandbox), std::move(id), std::move(process));
  // It may be in the middle of something: when it answers it is not.
  kernel->state_ = State::idle;
  kernel->enqueue("ping", {}, {});
  kernel->next();
  kernel->sandbox_->tasks().spawn("hear a kernel", serve(kernel, kernel->process_));
  return kernel;
}

async::Task<Result<>> Kernel::begin() {
  const auto self = shared_from_this();
  json::object variables;
  for (const auto& variable : sandbox_->environment(request_for(id_, variables_))) {
    const auto equals = variable.find('=');
    variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  const json::object first{
      {"op", "begin"}, {"mode", "kernel"}, {"env", std::move(variables)}, {"cwd", "/workspace"}, {"colour", false}};
  if (auto sent = process_->send(json::serialize(first)); !sent) co_return sent;
  const auto until = std::chrono::steady_clock::now() + kStartTime;
  while (state_ == State::starting && std::chrono::steady_clock::now() < until)
    co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
  if (state_ == State::starting) co_return fail(Errc::unavailable, "the kernel did not start in time");
  if (state_ == State::dead) {
    const auto& end = process_->end();
    co_return fail(Errc::conflict, fmt::format("the kernel died while it started ({})",
                                               end ? name_of(end->reason) : std::string_view("protocol error")));
  }
  co_return Result<>();
}

async::Task<> Kernel::serve(std::shared_ptr<Kernel> self, std::shared_ptr<Process> process) {
  Reader reader(process, 1);
  while (self->process_ == process) {
    auto batch = reader.take(kBatch);
    for (const auto& event : batch.events) {
      if (self->process_ == process) self->hear(event);
    }
    if (batch.over) break;
    if (batch.events.empty()) co_await process->changed().wait_until(std::chrono::steady_clock::now() + kLookAgain);
  }
  if (self->process_ == process) self->die();
  self->sandbox_->forget(process);
}

void Kernel::hear(const Event& event) {
  switch (event.kind) {
    case Event::Kind::channel:
      if (broken_.empty()) hear_record(event.bytes);
      break;
    case Event::Kind::out:
    case Event::Kind::err:
      // Of what the cell started. What comes when nothing runs belongs to nobody any more.
      if (running_ && running_->op_ == "execute")
        running_->add_text(event.kind == Event::Kind::out ? "stdout" : "stderr", replace_invalid_utf8(event.bytes));
      break;
    default:
      break;
  }
}

void Kernel::hear_record(std::string_view record) {
  auto whole = reader_.add(record);
  if (!whole) return break_off(whole.error().message);
  if (!*whole) return;
  boost::system::error_code failed;
  const auto message = json::parse(**whole, failed, {}, json::parse_options{.max_depth = kMostDepth});
  if (failed || !message.is_object()) return break_off("a message is not a JSON object");
  hear_message(message.as_object());
}

void Kernel::hear_message(const json::object& message) {
  const auto type = text_of(message, "type");
  if (type == "ready") {
    if (state_ != State::starting) return break_off("a second start");
    state_ = State::idle;
    changed_.notify_all();
    next();
    return;
  }
  const auto* parent = message.if_contains("parent");
  const auto* content = message.if_contains("content");
  if (type.empty() || parent == nullptr || content == nullptr || !content->is_object() ||
      !(parent->is_int64() || parent->is_uint64()))
    return break_off("a message lacks a part");
  // From a thread that a cell left behind, or for a server before us: nobody waits for it, and it is not the next
  // one's.
  const auto id = parent->is_int64() ? static_cast<std::uint64_t>(parent->as_int64()) : parent->as_uint64();
  if (!running_ || running_->id() != id) return;
  hear_of_running(type, content->as_object());
}

void Kernel::hear_of_running(std::string_view type, json::object content) {
  if (type == "stream") {
    const auto name = text_of(content, "name");
    if (name != "stdout" && name != "stderr") return break_off("a stream of no name");
    running_->add_text(name, text_of(content, "text"));
    return;
  }
  if (const auto event = event_of(type); !event.empty()) {
    if (event == "display" || event == "update_display" || event == "result") check_bundle(content);
    const auto bytes = json::serialize(content).size();
    running_->add(std::string(event), std::move(content), bytes);
    return;
  }
  if (!(type.ends_with("_reply") || type == "pong" || type == "done")) return;
  const auto status = text_of(content, "status");
  ExecutionEnd end{.status = status == "error"     ? ExecutionEnd::Status::error
                             : status == "aborted" ? ExecutionEnd::Status::aborted
                                                   : ExecutionEnd::Status::ok,
                   .reply = std::move(content)};
  if (stopping_) {
    end.reason = *stopping_;
    end.status = ExecutionEnd::Status::error;
  }
  const auto done = std::exchange(running_, nullptr);
  deadline_.cancel();
  stopping_.reset();
  done->finish(std::move(end));
  keep_recent(done);
  state_ = State::idle;
  changed_.notify_all();
  next();
}

// It can only have spoiled its own work. It is ended: what it says next could mean anything.
void Kernel::break_off(std::string_view why) {
  broken_ = std::string(why);
  process_->stop(Reason::kernel_died);
}

std::shared_ptr<Execution> Kernel::enqueue(std::string op, json::object content, ExecutionLimits limits) {
  auto execution = std::make_shared<Execution>(sandbox_->executor(), next_id_++, limits);
  execution->op_ = std::move(op);
  execution->content_ = std::move(content);
  queue_.push_back(execution);
  return execution;
}

Result<std::shared_ptr<Execution>> Kernel::execute(ExecuteRequest request) {
  if (state_ == State::dead) return fail(Errc::conflict, "the kernel is dead: restart it, or make another");
  if (queue_.size() >= kMostQueued)
    return fail(Errc::quota, fmt::format("{} executions wait in this kernel already", kMostQueued));
  json::object content{{"code", std::move(request.code)},
                       {"silent", request.silent},
                       {"store_history", request.store_history},
                       {"allow_stdin", request.allow_stdin},
                       {"colour", request.colour},
                       {"user_expressions", std::move(request.user_expressions)}};
  auto execution = enqueue("execute", std::move(content), request.limits);
  execution->timeout_ = request.timeout;
  ++executions_;
  next();
  return execution;
}

async::Task<Result<json::object>> Kernel::ask(std::string op, json::object content) {
  const auto self = shared_from_this();
  if (state_ == State::dead) co_return fail(Errc::conflict, "the kernel is dead: restart it, or make another");
  if (queue_.size() >= kMostQueued) co_return fail(Errc::quota, "too much waits in this kernel already");
  const auto question = enqueue(std::move(op), std::move(content), {});
  question->timeout_ = kStartTime;
  next();
  while (!question->end()) co_await question->changed().wait();
  if (question->end()->reason != Reason::exited)
    co_return fail(Errc::conflict, fmt::format("the kernel did not answer ({})", name_of(question->end()->reason)));
  co_return question->end()->reply;
}

std::shared_ptr<Execution> Kernel::find(std::uint64_t id) const {
  if (running_ && running_->id() == id) return running_;
  for (const auto* list : {&queue_, &recent_}) {
    for (const auto& execution : *list) {
      if (execution->id() == id) return execution;
    }
  }
  return nullptr;
}

void Kernel::keep_recent(std::shared_ptr<Execution> execution) {
  if (execution->op_ != "execute") return;
  recent_.push_back(std::move(execution));
  std::size_t held = 0;
  for (const auto& one : recent_) held += one->held_bytes();
  while (recent_.size() > kRecentCount || (held > kRecentBytes && recent_.size() > 1)) {
    held -= recent_.front()->held_bytes();
    recent_.pop_front();
  }
}

void Kernel::next() {
  if (state_ != State::idle || running_ || queue_.empty()) return;
  running_ = queue_.front();
  queue_.pop_front();
  state_ = State::busy;
  running_->begin();
  const json::object message{{"op", running_->op_}, {"id", running_->id()}, {"content", std::move(running_->content_)}};
  if (const auto sent = process_->send(json::serialize(message)); !sent) return;  // it died: serve() sees to it
  if (running_->timeout_) arm(*running_->timeout_, Reason::timeout);
  changed_.notify_all();
}

// Asked to stop, then killed.
void Kernel::arm(milliseconds left, Reason reason) {
  deadline_.expires_after(left);
  deadline_.async_wait([weak = weak_from_this(), reason, of = running_->id()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (failed || !self || !self->running_ || self->running_->id() != of) return;
    if (self->stopping_) {
      self->process_->stop(reason);
      return;
    }
    self->stopping_ = reason;
    [[maybe_unused]] const auto told = self->process_->signal(SIGINT);
    self->arm(kInterruptGrace, reason);
  });
}

Result<> Kernel::interrupt() {
  if (state_ == State::dead) return fail(Errc::conflict, "the kernel is dead: restart it, or make another");
  if (state_ != State::busy) return {};
  return process_->signal(SIGINT);
}

void Kernel::cancel(const std::shared_ptr<Execution>& execution, Reason reason) {
  if (execution->end()) return;
  if (execution == running_) {
    if (!stopping_) arm(milliseconds(0), reason);
    return;
  }
  std::erase(queue_, execution);
  execution->finish({.status = ExecutionEnd::Status::aborted, .reason = reason});
}

Result<> Kernel::reply_input(std::optional<std::string> value) {
  if (!running_ || !running_->waits_for_input()) return fail(Errc::conflict, "nothing waits for input");
  running_->waits_for_input_ = false;
  json::object content;
  if (value)
    content["value"] = std::move(*value);
  else
    content["error"] = true;
  const json::object message{{"op", "input_reply"}, {"id", running_->id()}, {"content", std::move(content)}};
  return process_->send(json::serialize(message));
}

// Everyone who waits hears at once, and why.
void Kernel::die() {
  state_ = State::dead;
  deadline_.cancel();
  const auto& end = process_->end();
  auto reason = stopping_.value_or(end ? end->reason : Reason::sandbox_gone);
  std::string note = broken_.empty() ? std::string() : fmt::format("protocol error: {}", broken_);
  if (reason == Reason::exited || reason == Reason::signalled) {
    if (note.empty() && end)
      note = end->signal != 0 ? fmt::format("killed by {}", signal_name(end->signal))
                              : fmt::format("exited with status {}", end->exit_status);
    reason = Reason::kernel_died;
  }
  stopping_.reset();
  if (const auto last = std::exchange(running_, nullptr)) {
    last->finish({.status = ExecutionEnd::Status::error, .reason = reason, .note = note});
    keep_recent(last);
  }
  for (const auto& waiting : std::exchange(queue_, {}))
    waiting->finish({.status = ExecutionEnd::Status::aborted, .reason = reason, .note = note});
  changed_.notify_all();
}

async::Task<Result<>> Kernel::restart() {
  const auto self = shared_from_this();
  co_await stop();
  auto process = co_await sandbox_->start_python(request_for(id_, variables_));
  if (!process) co_return tl::unexpected<Error>(process.error());
  process_ = std::move(*process);
  reader_ = MessageReader(kMostMessage);
  broken_.clear();
  state_ = State::starting;
  sandbox_->tasks().spawn("hear a kernel", serve(self, process_));
  co_return co_await begin();
}

async::Task<> Kernel::stop() {
  const auto self = shared_from_this();
  if (state_ != State::dead && !stopping_) stopping_ = Reason::cancelled;
  process_->stop(Reason::cancelled);
  while (state_ != State::dead) co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
}

}  // namespace cove::sandbox
