// What a sandbox does for its processes: connects them to its init, starts them, and counts what was refused to them.
#include <algorithm>
#include <boost/json.hpp>

#include "guest/environment.hpp"
#include "sandbox/poll_interval.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
namespace json = boost::json;

constexpr std::chrono::seconds kReadyTime{30};          // for a sandbox that is being made, or connected to
constexpr std::chrono::milliseconds kCountersTime{20};  // a start waits this long for the counters of earlier ends

}  // namespace

InitSession::Handlers Sandbox::handlers() {
  return {.on_known = [this](std::uint32_t number, const wire::Known& known) { processes_.on_known(number, known); },
          .on_synced =
              [this] {
                processes_.on_synced();
                changed_.notify_all();
              },
          .on_frame = [this](const wire::Frame& frame) { on_frame(frame); },
          .on_disconnected = [this] { on_disconnected(); }};
}

Result<> Sandbox::connect() {
  COVE_CHECK(session_->connect(lease()));
  processes_.on_connected();
  return {};
}

// Init is gone, and then nobody listens; or only the connection broke, and then it is made again.
void Sandbox::on_disconnected() {
  processes_.on_disconnected();
  const bool alive = record_.state == State::running || record_.state == State::creating;
  if (!alive || !connect()) on_init_gone();
}

void Sandbox::on_init_gone() {
  session_->close();
  processes_.on_sandbox_gone();
  changed_.notify_all();
}

void Sandbox::on_frame(const wire::Frame& frame) {
  const auto process = find_process(frame.process);
  if (!process) return;
  process->receive(frame);
  if (frame.type == wire::FrameType::exited)
    context_.tasks.spawn("conclude a process", conclude(shared_from_this(), process));
}

async::Task<> Sandbox::conclude(std::shared_ptr<Sandbox> self, std::shared_ptr<Process> process) {
  bool counted = process->end().has_value();
  Process::Inspect inspect = [&] {
    counted = true;
    return self->inspect();
  };
  co_await process->conclude(std::move(inspect));
  // After a good end the counters are read when the answer is on its way, for those that come next.
  const bool last = self->purpose() == Purpose::throwaway;
  if (!counted && !last && process->request().kind != ProcessKind::internal) co_await self->refresh_counters();
}

async::Task<> Sandbox::refresh_counters() {
  const auto self = shared_from_this();
  counters_stale_ = true;
  if (reading_counters_) co_return;
  reading_counters_ = true;
  while (record_.state == State::running && std::exchange(counters_stale_, false)) {
    if (!co_await inspect()) break;
  }
  reading_counters_ = false;
  changed_.notify_all();
}

async::Task<> Sandbox::counted(Clock::time_point until) {
  const auto self = shared_from_this();
  while (reading_counters_ && co_await changed_.wait_until(until)) {
  }
}

void Sandbox::kill_everything() {
  if (!session_->connected()) return;
  session_->link()->kill_everything();
  session_->flush();
}

std::vector<std::string> Sandbox::environment(const ProcessRequest& request) const {
  auto variables = guest::base_environment(
      {.memory_bytes = record_.row.memory_bytes, .cpu_millis = record_.row.cpu_millis, .pids = record_.row.pids});
  if (request.terminal) guest::set_variable(variables, "TERM=xterm-256color");
  for (const auto& variable : network_variables_) guest::set_variable(variables, variable);
  boost::system::error_code failed;
  if (const auto own = json::parse(record_.row.env_json, failed); !failed && own.is_object()) {
    for (const auto& [name, value] : own.as_object()) {
      if (value.is_string())
        guest::set_variable(variables,
                            fmt::format("{}={}", std::string_view(name), std::string_view(value.as_string())));
    }
  }
  for (const auto& variable : request.variables) guest::set_variable(variables, variable);
  return variables;
}

json::object Sandbox::first_message(std::string_view mode, const ProcessRequest& request) const {
  return guest::first_message(mode, environment(request), directory_of(record_, request.directory));
}

// Until a process can be started.
async::Task<Result<>> Sandbox::wait_until_ready(ProcessKind kind, std::function<bool()> abandoned) {
  // Numbers are given when init has reported which are taken.
  const auto until = Clock::now() + kReadyTime;
  while (record_.state == State::creating ||
         (record_.state == State::running && session_->connected() && !session_->synced())) {
    if (Clock::now() > until) co_return fail(Errc::unavailable, "the sandbox does not answer");
    if (abandoned && abandoned()) co_return fail(Errc::unavailable, "the request was abandoned");
    co_await changed_.wait_until(Clock::now() + kPollInterval);
  }
  if (kind != ProcessKind::internal) co_await counted(Clock::now() + kCountersTime);
  if (record_.state != State::running || !session_->connected()) co_return not_startable(record_);
  if (kind == ProcessKind::background) co_return processes_.check_background_quota();
  co_return Result<>();
}

// A refused fork of a process that did not start must not be counted against the next one.
void Sandbox::count_refusal(const Result<std::shared_ptr<Process>>& started) {
  if (started && (*started)->failure()) context_.tasks.spawn("count a refusal", refresh_counters());
}

Births::Started Sandbox::begin(ProcessRequest request, Interpreter interpreter) {
  auto variables = environment(request);
  switch (interpreter) {
    case Interpreter::none:
      break;
    case Interpreter::python:
      return births_.python(std::move(request), std::move(variables), this->request(wire::KeeperVerb::birth));
    case Interpreter::node:
      return births_.node(std::move(request), std::move(variables));
  }
  return births_.program(std::move(request), std::move(variables));
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::start_when_ready(ProcessRequest request,
                                                                        Interpreter interpreter) {
  const auto self = shared_from_this();
  COVE_CO_CHECK(co_await wait_until_ready(request.kind, request.abandoned));
  auto start = begin(std::move(request), interpreter);
  auto started = co_await std::move(start);
  count_refusal(started);
  co_return started;
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::start(ProcessRequest request) {
  return start_when_ready(std::move(request), Interpreter::none);
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::start_python(ProcessRequest request) {
  const auto self = shared_from_this();
  if (const auto* from = context_.templates.find(record_.row.template_name); from != nullptr && !from->kernels)
    co_return fail(Errc::conflict,
                   fmt::format("template {} has no IPython: build one with the package python3-ipython", from->name));
  auto start = start_when_ready(std::move(request), Interpreter::python);
  co_return co_await std::move(start);
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::start_node(ProcessRequest request) {
  return start_when_ready(std::move(request), Interpreter::node);
}

async::Task<Result<>> Sandbox::keep_python_ready(SpareUse use) {
  const auto self = shared_from_this();
  const auto birth = request(wire::KeeperVerb::birth);
  auto expected = first_message("expect", {});
  expected["use"] = use == SpareUse::kernel ? "kernel" : "program";
  co_return co_await births_.keep_spare(birth, use, json::serialize(expected));
}

}  // namespace cove::sandbox
