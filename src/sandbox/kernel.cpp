#include "sandbox/kernel.hpp"

#include <signal.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace cove::sandbox {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr std::size_t kMostMessage = 17U << 20;  // a little more than is kept of what is shown
constexpr std::size_t kMostDepth = 80;
constexpr std::size_t kMostElements = 500'000;
constexpr std::size_t kElementCost = 24;
constexpr std::size_t kMostQueued = 256;
constexpr std::size_t kRecentBytes = 4U << 20;
constexpr std::size_t kRecentCount = 64;
constexpr std::size_t kAllRecentBytes = 256U << 20;  // of every kernel together
constexpr std::size_t kBatch = 256U << 10;
constexpr int kNotFound = 127;           // as shells say it
constexpr std::size_t kMostWords = 500;  // of its own, about why it cannot begin
constexpr milliseconds kStartTime{30'000};
constexpr milliseconds kQuestionTime{30'000};  // of the kernel's own, when its turn has come
constexpr std::chrono::hours kAdoptedTime{1};  // for what it was at when it was adopted
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

// How much of our memory a message takes beside its text: what stands between strings.
std::size_t elements_of(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (i = text.find_first_of("\"\\", i + 1); i < text.size() && text[i] == '\\';)
        i = text.find_first_of("\"\\", i + 2);
      if (i >= text.size()) break;
    } else if (c == ',' || c == '[' || c == '{') {
      ++count;
    }
  }
  return count;
}

// Something shown that is larger than any message may be. Its type stands first.
bool is_display(std::string_view head) {
  for (const std::string_view type :
       {"display_data", "update_display_data", "execute_result", "error", "comm_open", "comm_msg", "comm_close"}) {
    if (head.starts_with(fmt::format(R"({{"type":"{}",)", type))) return true;
  }
  return false;
}

// What it is known by holds its id, for a server that comes after us.
ProcessRequest request_for(const std::string& id, const KernelOptions& options) {
  return {.kind = ProcessKind::kernel,
          .argv = {options.language == KernelLanguage::python ? "python3" : "node", id},
          .variables = options.variables,
          .input = InputMode::none,
          .delivery = Delivery::everything};
}

async::Task<Result<std::shared_ptr<Process>>> start_interpreter(std::shared_ptr<Sandbox> sandbox, std::string id,
                                                                KernelOptions options) {
  auto request = request_for(id, options);
  if (options.language == KernelLanguage::python) co_return co_await sandbox->start_python(std::move(request));
  co_return co_await sandbox->start_node(std::move(request));
}

constexpr auto kLanguages = std::to_array<std::pair<KernelLanguage, std::string_view>>(
    {{KernelLanguage::python, "python"}, {KernelLanguage::javascript, "javascript"}});

}  // namespace

std::string_view name_of(KernelLanguage language) {
  return std::ranges::find(kLanguages, language, &std::pair<KernelLanguage, std::string_view>::first)->second;
}

std::optional<KernelLanguage> find_kernel_language(std::string_view name) {
  for (const auto& [language, known] : kLanguages) {
    if (known == name) return language;
  }
  return std::nullopt;
}

Kernel::Kernel(std::shared_ptr<Sandbox> sandbox, std::string id, std::shared_ptr<Process> process,
               std::shared_ptr<KernelTotals> totals)
    : sandbox_(std::move(sandbox)),
      process_(std::move(process)),
      id_(std::move(id)),
      totals_(std::move(totals)),
      changed_(sandbox_->executor()),
      reader_(kMostMessage),
      // Never one that a server before us gave.
      next_id_(static_cast<std::uint64_t>(unix_millis()) * 1000),
      deadline_(sandbox_->executor()) {}

async::Task<Result<std::shared_ptr<Kernel>>> Kernel::start(std::shared_ptr<Sandbox> sandbox, std::string id,
                                                           KernelOptions options,
                                                           std::shared_ptr<KernelTotals> totals) {
  auto process = co_await start_interpreter(sandbox, id, options);
  if (!process) co_return tl::unexpected<Error>(process.error());
  if (const auto& end = (*process)->end())
    co_return tl::unexpected<Error>(Error{.code = Errc::conflict,
                                          .message = end->note.empty() ? "the interpreter did not start" : end->note,
                                          .sys_errno = end->exit_status == kNotFound ? ENOENT : 0});
  const auto kernel = std::make_shared<Kernel>(sandbox, std::move(id), std::move(*process), std::move(totals));
  kernel->options_ = std::move(options);
  sandbox->tasks().spawn("hear a kernel", serve(kernel, kernel->process_));
  if (auto begun = co_await kernel->begin(); !begun) {
    co_await kernel->stop();
    co_return tl::unexpected<Error>(begun.error());
  }
  co_return kernel;
}

std::shared_ptr<Kernel> Kernel::adopt(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Process> process,
                                      std::shared_ptr<KernelTotals> totals) {
  const auto& words = process->request().argv;
  auto id = words.size() > 1 ? words.back() : fmt::format("p{}", process->number());
  const bool python = words.empty() || !words.front().ends_with("node");
  const auto kernel =
      std::make_shared<Kernel>(std::move(sandbox), std::move(id), std::move(process), std::move(totals));
  kernel->options_.language = python ? KernelLanguage::python : KernelLanguage::javascript;
  // It may be in the middle of something: when it answers it is not.
  kernel->state_ = State::idle;
  kernel->enqueue("ping", {}, {})->timeout_ = kAdoptedTime;
  kernel->next();
  kernel->sandbox_->tasks().spawn("hear a kernel", serve(kernel, kernel->process_));
  return kernel;
}

bool Kernel::warm() const {
  return process_->request().argv.size() == 2;
}

async::Task<Result<>> Kernel::begin() {
  const auto self = shared_from_this();
  const auto first = sandbox_->first_message("kernel", request_for(id_, options_));
  if (auto sent = process_->send(json::serialize(first)); !sent) co_return sent;
  const auto until = std::chrono::steady_clock::now() + kStartTime;
  while (state_ == State::starting && std::chrono::steady_clock::now() < until)
    co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
  if (state_ == State::starting) co_return fail(Errc::unavailable, "the kernel did not start in time");
  if (state_ == State::dead)
    co_return fail(Errc::conflict, fmt::format("the kernel died while it started: {}", how_it_died()));
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
        running_->add_bytes(event.kind == Event::Kind::out ? "stdout" : "stderr", event.bytes);
      break;
    default:
      break;
  }
}

void Kernel::hear_record(std::string_view record) {
  auto whole = reader_.add(record);
  const auto too_large = [this](std::string_view head) {
    if (!is_display(head)) return break_off("a message is too large");
    if (running_) ++running_->truncated_.displays;
  };
  if (!whole && whole.error().code == Errc::over_limit) return too_large(reader_.head());
  if (!whole) return break_off(whole.error().message);
  if (!*whole) return;
  const auto elements = elements_of(**whole);
  if (elements > kMostElements) return too_large(**whole);
  boost::system::error_code failed;
  auto message = json::parse(**whole, failed, {}, json::parse_options{.max_depth = kMostDepth});
  if (failed || !message.is_object()) return break_off("a message is not a JSON object");
  hear_message(std::move(message.as_object()), (*whole)->size() + elements * kElementCost);
}

void Kernel::hear_message(json::object message, std::size_t bytes) {
  const auto type = text_of(message, "type");
  if (type == "ready") {
    if (state_ != State::starting) return;  // one that was adopted says again what it said to a server before us
    state_ = State::idle;
    changed_.notify_all();
    next();
    return;
  }
  if (type == "failed") {
    broken_ = replace_invalid_utf8(text_of(message, "message").substr(0, kMostWords));
    return process_->stop(Reason::kernel_died);
  }
  const auto* parent = message.if_contains("parent");
  auto* content = message.if_contains("content");
  if (type.empty() || parent == nullptr || content == nullptr || !content->is_object())
    return break_off("a message lacks a part");
  // From a thread that a cell left behind, or for a server before us: nobody waits for it, and it is not the next
  // one's.
  if (!running_ || !parent->is_int64() || static_cast<std::uint64_t>(parent->as_int64()) != running_->id()) return;
  hear_of_running(type, std::move(content->as_object()), bytes);
}

void Kernel::hear_of_running(std::string_view type, json::object content, std::size_t bytes) {
  if (type == "stream") {
    const auto name = text_of(content, "name");
    if (name != "stdout" && name != "stderr") return break_off("a stream of no name");
    running_->add_text(name, text_of(content, "text"));
    return;
  }
  if (const auto event = event_of(type); !event.empty()) {
    if (event == "display" || event == "update_display" || event == "result") check_bundle(content);
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
  finish(done, std::move(end), bytes);
  state_ = State::idle;
  changed_.notify_all();
  next();
}

void Kernel::finish(const std::shared_ptr<Execution>& execution, ExecutionEnd end, std::size_t reply_bytes) {
  if (execution->end()) return;
  if (execution->op_ == "execute") ++totals_->ended[end.reason];
  execution->finish(std::move(end), reply_bytes);
  keep_recent(execution);
}

// It can only have spoiled its own work. It is ended: what it says next could mean anything.
void Kernel::break_off(std::string_view why) {
  broken_ = fmt::format("protocol error: {}", why);
  process_->stop(Reason::kernel_died);
}

std::shared_ptr<Execution> Kernel::enqueue(std::string op, json::object content, ExecutionLimits limits) {
  auto execution = std::make_shared<Execution>(sandbox_->executor(), next_id_++, limits, std::move(op));
  execution->content_ = std::move(content);
  queue_.push_back(execution);
  return execution;
}

Result<std::shared_ptr<Execution>> Kernel::execute(ExecuteRequest request) {
  if (state_ == State::dead) return is_dead();
  if (queue_.size() >= kMostQueued)
    return fail(Errc::quota, fmt::format("{} executions wait in this kernel already", kMostQueued));
  json::object content{{"code", std::move(request.code)},
                       {"silent", request.silent},
                       {"store_history", request.store_history},
                       {"allow_stdin", request.allow_stdin},
                       {"colour", request.colour},
                       {"user_expressions", std::move(request.user_expressions)}};
  if (!request.file.empty()) content["file"] = std::move(request.file);
  if (request.watch) content["watch"] = true;
  auto execution = enqueue("execute", std::move(content), request.limits);
  execution->timeout_ = request.timeout;
  execution->grace_ = request.grace;
  ++executions_;
  next();
  return execution;
}

async::Task<Result<std::shared_ptr<Execution>>> Kernel::ask(std::string op, json::object content,
                                                            std::function<bool()> abandoned) {
  const auto self = shared_from_this();
  if (state_ == State::dead) co_return is_dead();
  if (queue_.size() >= kMostQueued) co_return fail(Errc::quota, "too much waits in this kernel already");
  const auto question = enqueue(std::move(op), std::move(content), {});
  question->timeout_ = kQuestionTime;
  next();
  while (!question->end()) {
    co_await question->changed().wait_until(std::chrono::steady_clock::now() + kLookAgain);
    if (!question->end() && abandoned && abandoned()) {
      cancel(question, Reason::cancelled);
      co_return fail(Errc::unavailable, "nobody waits for it any more");
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
  recent_bytes_ += execution->held_bytes();
  totals_->recent_bytes += execution->held_bytes();
  recent_.push_back(std::move(execution));
  const auto too_many = [this] {
    if (recent_.empty()) return false;
    return recent_.size() > kRecentCount || (recent_bytes_ > kRecentBytes && recent_.size() > 1) ||
           totals_->recent_bytes > kAllRecentBytes;
  };
  while (too_many()) {
    recent_bytes_ -= recent_.front()->held_bytes();
    totals_->recent_bytes -= recent_.front()->held_bytes();
    recent_.pop_front();
  }
}

Kernel::~Kernel() {
  totals_->recent_bytes -= recent_bytes_;
}

void Kernel::next() {
  if (state_ != State::idle || running_ || queue_.empty()) return;
  running_ = queue_.front();
  queue_.pop_front();
  state_ = State::busy;
  running_->begin();
  process_->charge_from_now();
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
    self->arm(self->running_->grace_, reason);
  });
}

Result<> Kernel::interrupt() {
  if (state_ == State::dead) return is_dead();
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
  finish(execution, {.status = ExecutionEnd::Status::aborted, .reason = reason});
}

void Kernel::cancel_all(Reason reason) {
  for (const auto& waiting : std::exchange(queue_, {}))
    finish(waiting, {.status = ExecutionEnd::Status::aborted, .reason = reason});
  if (running_ && running_->op_ == "execute") cancel(running_, reason);
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

std::string Kernel::how_it_died() const {
  if (!broken_.empty()) return broken_;
  const auto& end = process_->end();
  if (!end) return "the sandbox ended";
  switch (end->reason) {
    case Reason::exited:
      return fmt::format("it exited with status {}", end->exit_status);
    case Reason::signalled:
      return fmt::format("it was killed by {}", signal_name(end->signal));
    case Reason::oom:
      return "the sandbox's memory limit was reached";
    case Reason::pids:
      return "the sandbox's process limit was reached";
    case Reason::disk:
      return "the sandbox's storage is full";
    case Reason::timeout:
      return "it did not end in time, and not when it was interrupted";
    case Reason::cancelled:
      return "it was ended";
    default:
      return end->note.empty() ? std::string(name_of(end->reason)) : end->note;
  }
}

tl::unexpected<Error> Kernel::is_dead() const {
  return fail(Errc::conflict, fmt::format("the kernel is dead ({}): restart it, or make another", how_it_died()));
}

// Everyone who waits hears at once, and why.
void Kernel::die() {
  state_ = State::dead;
  deadline_.cancel();
  const auto& end = process_->end();
  auto reason = stopping_.value_or(end ? end->reason : Reason::sandbox_gone);
  // A parent that waits for the child the kernel killed runs into its time limit: memory is what ended it.
  if (reason == Reason::timeout && end && end->reason == Reason::oom) reason = Reason::oom;
  if (reason == Reason::exited || reason == Reason::signalled) reason = Reason::kernel_died;
  const auto note = how_it_died();
  stopping_.reset();
  if (const auto last = std::exchange(running_, nullptr))
    finish(last, {.status = ExecutionEnd::Status::error,
                  .reason = reason,
                  .note = note,
                  .exit_status = end ? std::optional(end->exit_status) : std::nullopt,
                  .signal = end ? end->signal : 0});
  // What one of them did is not the others' end.
  const bool all = ending_ || reason == Reason::sandbox_gone || reason == Reason::shutdown;
  for (const auto& waiting : std::exchange(queue_, {}))
    finish(waiting,
           {.status = ExecutionEnd::Status::aborted, .reason = all ? reason : Reason::kernel_died, .note = note});
  changed_.notify_all();
}

async::Task<Result<>> Kernel::restart() {
  const auto self = shared_from_this();
  if (std::exchange(restarting_, true)) co_return fail(Errc::conflict, "the kernel is being restarted already");
  co_await end_process();
  state_ = State::starting;  // what comes from now on is for the new one
  changed_.notify_all();
  Result<> done = fail(Errc::not_found, "the kernel was deleted");
  if (!removed_) done = co_await start_again();
  if (!done && state_ != State::dead) die();
  restarting_ = false;
  if (removed_) co_await end_process();
  changed_.notify_all();
  co_return done;
}

async::Task<Result<>> Kernel::start_again() {
  auto process = co_await start_interpreter(sandbox_, id_, options_);
  if (!process) co_return tl::unexpected<Error>(process.error());
  process_ = std::move(*process);
  reader_ = MessageReader(kMostMessage);
  broken_.clear();
  state_ = State::starting;
  sandbox_->tasks().spawn("hear a kernel", serve(shared_from_this(), process_));
  auto begun = co_await begin();
  if (!begun) co_await end_process();
  co_return begun;
}

async::Task<> Kernel::stop() {
  const auto self = shared_from_this();
  removed_ = true;
  co_await end_process();
  while (restarting_) co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
}

async::Task<> Kernel::end_process() {
  if (state_ != State::dead && !stopping_) stopping_ = Reason::cancelled;
  ending_ = true;
  process_->stop(Reason::cancelled);
  while (state_ != State::dead) co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
  ending_ = false;
}

}  // namespace cove::sandbox
