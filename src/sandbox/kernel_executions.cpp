// What a kernel runs: its queue of executions, and the messages of the one that runs.
#include <signal.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/text.hpp"
#include "guest/limit_message.hpp"
#include "sandbox/kernel.hpp"
#include "sandbox/poll_interval.hpp"
#include "sandbox/tool_calls.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
namespace json = boost::json;

constexpr std::size_t kMaxQueued = 256;
constexpr std::size_t kMaxReason = 500;        // bytes of its own message about why it cannot begin
constexpr milliseconds kCountersTime{20};      // a cell waits this long for the counters of the one before it
constexpr milliseconds kQuestionTime{30'000};  // of the kernel's own, when its turn has come

// The user's code runs: a cell, or the handler of a comm.
bool runs_code(const Execution& execution) {
  const auto& op = execution.order().op;
  return op == "execute" || (op.starts_with("comm_") && op != "comm_info");
}

}  // namespace

void Kernel::on_event(const Event& event) {
  switch (event.kind) {
    case Event::Kind::channel:
      if (broken_.empty()) on_record(event.bytes);
      break;
    case Event::Kind::out:
    case Event::Kind::err:
      // Written by what the cell started. Output while nothing runs belongs to nobody.
      if (running_ && runs_code(*running_))
        running_->add_bytes(event.kind == Event::Kind::out ? "stdout" : "stderr", event.bytes);
      break;
    default:
      break;
  }
}

void Kernel::on_record(std::string_view record) {
  auto message = inbox_.add(record);
  if (message) {
    if (*message) on_message(std::move(**message));
  } else if (message.error().code == Errc::over_limit) {
    if (running_) running_->add_dropped_display(inbox_.head(), KernelInbox::kMaxMessage);
  } else {
    on_protocol_error(message.error().message);
  }
}

void Kernel::on_message(KernelMessage message) {
  if (message.type == "ready") {
    if (state_ != State::starting) return;  // one that was adopted repeats what it sent to the server before us
    state_ = State::idle;
    version_ = std::move(message.text);
    changed_.notify_all();
    run_next();
    return;
  }
  if (message.type == "failed") {
    broken_ = replace_invalid_utf8(message.text.substr(0, kMaxReason));
    return process_->stop(Reason::kernel_died);
  }
  // Threads and tasks that a cell left behind may call tools too.
  if (message.type == "tool_call" || message.type == "tool_cancel") {
    if (running_ && message.parent == running_->id()) on_announced();
    if (auto* calls = sandbox_->tool_calls(); calls != nullptr)
      calls->on_message(shared_from_this(), std::move(message));
    return;
  }
  // From a thread that a cell left behind, or for the server before us: it does not belong to the next one.
  if (running_ && message.parent == running_->id()) on_message_of_running(std::move(message));
}

void Kernel::on_announced() {
  if (std::exchange(announced_, true)) return;
  if (std::exchange(interrupt_due_, false)) [[maybe_unused]]
    const auto sent = process_->signal(SIGINT);
}

void Kernel::on_message_of_running(KernelMessage message) {
  on_announced();
  if (message.type == "stream") {
    const auto name = text_of(message.content, "name");
    if (name != "stdout" && name != "stderr") return on_protocol_error("a stream of no name");
    running_->add_text(name, text_of(message.content, "text"));
    return;
  }
  if (message.type == "execute_input") {
    const auto* count = message.content.if_contains("execution_count");
    if (count != nullptr && count->is_int64()) running_->set_count(count->as_int64());
    return;
  }
  if (const auto event = event_of(message.type); !event.empty()) {
    if (event == "display" || event == "update_display" || event == "result") check_bundle(message.content);
    running_->add(std::string(event), std::move(message.content), message.bytes);
    return;
  }
  if (is_reply(message.type)) on_reply(std::move(message));
}

void Kernel::on_reply(KernelMessage message) {
  const auto status = text_of(message.content, "status");
  ExecutionEnd end{.status = status == "error"     ? ExecutionEnd::Status::error
                             : status == "aborted" ? ExecutionEnd::Status::aborted
                                                   : ExecutionEnd::Status::ok,
                   .reply = std::move(message.content)};
  if (stopping_) {
    end.reason = *stopping_;
    end.status = ExecutionEnd::Status::error;
  }
  if (const auto kills = process_->oom_kills(); kills > 0) {
    end.oom_kills = kills;
    end.note = guest::killed_beside(kills, {.limits = process_->limits()});
  }
  const auto done = std::exchange(running_, nullptr);
  deadline_.cancel();
  stopping_.reset();
  finish(done, std::move(end), message.bytes);
  state_ = State::idle;
  changed_.notify_all();
  counting_ = true;
  sandbox_->tasks().spawn("count what a cell met", count(shared_from_this()));
}

// A cell is charged with what is counted from its start on: it starts when the counters have been read after the one
// before it, while the answer to that is on its way.
async::Task<> Kernel::count(std::shared_ptr<Kernel> self) {
  const auto until = std::chrono::steady_clock::now() + kCountersTime;
  self->sandbox_->tasks().spawn("read counters", self->sandbox_->refresh_counters());
  co_await boost::asio::post(self->sandbox_->executor(), boost::asio::use_awaitable);  // it has begun then
  co_await self->sandbox_->counted(until);
  self->counting_ = false;
  self->run_next();
}

void Kernel::finish(const std::shared_ptr<Execution>& execution, ExecutionEnd end, std::size_t reply_bytes) {
  if (execution->end()) return;
  const bool is_run = execution->order().op == "execute";
  if (auto* calls = sandbox_->tool_calls(); calls != nullptr && end.reason != Reason::exited)
    calls->cancel(*this, execution->id());
  if (is_run) ++totals_->ended[end.reason];
  execution->finish(std::move(end), reply_bytes);
  if (is_run && !execution->held_until_taken()) recent_.add(execution);
}

// It can only have spoiled its own work. It is ended: its next message could mean anything.
void Kernel::on_protocol_error(std::string_view why) {
  broken_ = fmt::format("protocol error: {}", why);
  process_->stop(Reason::kernel_died);
}

std::shared_ptr<Execution> Kernel::enqueue(ExecutionOrder order, ExecutionLimits limits) {
  return queue_.emplace_back(std::make_shared<Execution>(sandbox_->executor(), next_id_++, limits, std::move(order)));
}

journal::Act Kernel::act_of(const ExecuteRequest& request) const {
  journal::Act act{.kind = journal::kind::kCell, .summary = journal::first_line(request.code)};
  act.detail = {{"kernel", id_}, {"language", name_of(options_.language)}, {"code", journal::excerpt(request.code)}};
  act.repeat = {{"kernel", id_}, {"language", name_of(options_.language)}, {"code", request.code}};
  if (!options_.variables.empty()) act.repeat["variables"] = json::value_from(options_.variables);
  if (!request.file.empty()) act.repeat["file"] = request.file;
  if (request.timeout) act.repeat["timeoutMs"] = request.timeout->count();
  return act;
}

journal::Act Kernel::act_of(std::string_view verb) const {
  journal::Act act{.kind = journal::kind::kKernel, .summary = fmt::format("{} {}", verb, id_)};
  act.detail = {{"verb", verb}, {"kernel", id_}, {"language", name_of(options_.language)}};
  act.repeat = act.detail;
  return act;
}

Result<std::shared_ptr<Execution>> Kernel::execute(ExecuteRequest request) {
  if (state_ == State::dead) return is_dead();
  if (queue_.size() >= kMaxQueued)
    return fail(Errc::quota, fmt::format("the limit of {} queued executions in this kernel is reached", kMaxQueued));
  if (!request.comm.empty()) {
    ExecutionOrder handled{.op = std::move(request.comm),
                           .content = std::move(request.message),
                           .timeout = request.timeout,
                           .grace = request.grace};
    auto execution = enqueue(std::move(handled), request.limits);
    run_next();
    return execution;
  }
  auto entry = request.silent ? nullptr : sandbox_->begin_act(request.actor, act_of(request));
  json::object content{{"code", std::move(request.code)},
                       {"silent", request.silent},
                       {"store_history", request.store_history},
                       {"allow_stdin", request.allow_stdin},
                       {"colour", request.colour},
                       {"user_expressions", std::move(request.user_expressions)}};
  if (!request.file.empty()) content["file"] = std::move(request.file);
  if (request.stay) content["stay"] = true;
  if (request.watch) content["watch"] = true;
  ExecutionOrder order{
      .content = std::move(content), .timeout = request.timeout, .grace = request.grace, .entry = entry};
  auto execution = enqueue(std::move(order), request.limits);
  if (entry) entry->set_reference(fmt::format("cell {}/{}", id_, execution->id()));
  ++executions_;
  run_next();
  return execution;
}

async::Task<Result<std::shared_ptr<Execution>>> Kernel::ask(std::string op, json::object content,
                                                            std::function<bool()> abandoned) {
  const auto self = shared_from_this();
  if (state_ == State::dead) co_return is_dead();
  if (queue_.size() >= kMaxQueued) co_return fail(Errc::quota, "the queue of this kernel is full");
  ExecutionOrder order{.op = std::move(op), .content = std::move(content), .timeout = kQuestionTime};
  const auto question = enqueue(std::move(order), {});
  run_next();
  while (!question->end()) {
    co_await question->changed().wait_until(std::chrono::steady_clock::now() + kPollInterval);
    if (!question->end() && abandoned && abandoned()) {
      cancel(question, Reason::cancelled);
      co_return fail(Errc::unavailable, "the request was abandoned");
    }
  }
  const auto& end = *question->end();
  if (end.reason == Reason::exited && end.status == ExecutionEnd::Status::ok) co_return question;
  if (state_ == State::dead) co_return is_dead();
  if (end.reason == Reason::exited)
    co_return fail(Errc::conflict, fmt::format("the kernel could not answer: {}: {}", text_of(end.reply, "ename"),
                                               text_of(end.reply, "evalue")));
  co_return fail(Errc::conflict, fmt::format("the kernel did not answer ({})", name_of(end.reason)));
}

std::shared_ptr<Execution> Kernel::find(std::uint64_t id) const {
  // The events of one that is held until they are taken are for its one reader.
  const auto is_it = [id](const auto& execution) { return execution->id() == id && !execution->held_until_taken(); };
  if (running_ && is_it(running_)) return running_;
  const auto waiting = std::ranges::find_if(queue_, is_it);
  return waiting != queue_.end() ? *waiting : recent_.find(id);
}

void Kernel::run_next() {
  if (state_ != State::idle || running_ || counting_ || queue_.empty()) return;
  running_ = queue_.front();
  queue_.pop_front();
  state_ = State::busy;
  announced_ = interrupt_due_ = false;
  clock_holds_ = 0;
  left_.reset();
  running_->begin();
  process_->rebase_counters();
  const json::object message{
      {"op", running_->order().op}, {"id", running_->id()}, {"content", running_->take_content()}};
  if (const auto sent = process_->send(json::serialize(message)); !sent) return;  // it died: serve() sees to it
  if (const auto timeout = running_->order().timeout) arm(*timeout, Reason::timeout);
  changed_.notify_all();
}

// Asked to stop, then killed.
void Kernel::arm(milliseconds left, Reason reason) {
  left_.reset();
  deadline_.expires_after(left);
  deadline_.async_wait([weak = weak_from_this(), reason, of = running_->id()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (failed || !self || !self->running_ || self->running_->id() != of) return;
    if (self->stopping_) {
      self->process_->stop(reason);
      return;
    }
    self->stopping_ = reason;
    [[maybe_unused]] const auto sent = self->send_interrupt();
    self->arm(self->running_->order().grace, reason);
  });
}

void Kernel::hold_clock(std::uint64_t execution) {
  if (!running_ || running_->id() != execution || clock_holds_++ > 0 || stopping_ || !running_->order().timeout) return;
  left_ = std::max(milliseconds(0),
                   std::chrono::duration_cast<milliseconds>(deadline_.expiry() - std::chrono::steady_clock::now()));
  deadline_.cancel();
}

void Kernel::release_clock(std::uint64_t execution) {
  if (!running_ || running_->id() != execution || clock_holds_ == 0 || --clock_holds_ > 0) return;
  if (const auto left = std::exchange(left_, std::nullopt); left && !stopping_) arm(*left, Reason::timeout);
}

Result<> Kernel::tell(std::string_view message) {
  if (state_ == State::dead) return is_dead();
  return process_->send(message);
}

Result<> Kernel::interrupt(const journal::Actor& actor) {
  if (state_ == State::dead) return is_dead();
  if (const auto entry = sandbox_->begin_act(actor, act_of("interrupt"))) entry->end({.word = "ok"});
  if (state_ != State::busy) return {};
  return send_interrupt();
}

// An interpreter that has not announced the cell yet would take the signal for a late one, meant for the cell before.
Result<> Kernel::send_interrupt() {
  interrupt_due_ = running_ && running_->order().op == "execute" && !announced_;
  if (interrupt_due_) return {};
  return process_->signal(SIGINT);
}

void Kernel::cancel(const std::shared_ptr<Execution>& execution, Reason reason) {
  if (execution->end()) return;
  if (execution == running_) {
    if (!stopping_) arm(milliseconds(0), reason);
    return;
  }
  std::erase(queue_, execution);
  finish(execution, {.status = ExecutionEnd::Status::aborted, .reason = reason});
}

void Kernel::cancel_all(Reason reason) {
  for (const auto& waiting : std::exchange(queue_, {}))
    finish(waiting, {.status = ExecutionEnd::Status::aborted, .reason = reason});
  if (running_ && runs_code(*running_)) cancel(running_, reason);
}

Result<> Kernel::reply_input(std::optional<std::string> value) {
  if (!running_ || !running_->waits_for_input()) return fail(Errc::conflict, "no running cell waits for input");
  running_->on_input_answered();
  json::object content;
  if (value)
    content["value"] = std::move(*value);
  else
    content["error"] = true;
  const json::object message{{"op", "input_reply"}, {"id", running_->id()}, {"content", std::move(content)}};
  return process_->send(json::serialize(message));
}

}  // namespace cove::sandbox
