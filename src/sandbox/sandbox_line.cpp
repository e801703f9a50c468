// The line to init: what goes over it, and what happens when it breaks.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>

#include "base/clock.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
namespace json = boost::json;

constexpr milliseconds kOrphanGrace{2000};

// A path that is never too long for a socket, whatever the state directory is.
Result<sockaddr_un> address_in(int directory, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = fmt::format("/proc/self/fd/{}/{}", directory, name);
  if (path.size() >= sizeof address.sun_path) return fail(Errc::io, "the name of a control socket is too long");
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

}  // namespace

Result<UniqueFd> Sandbox::listen_for_front() {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return fail_errno(errno, "make a control socket");
  COVE_TRY(const auto address, address_in(surroundings_.run_dir, row_.id));
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(errno, "bind a control socket");
  if (::listen(listener.get(), 4) != 0) return fail_errno(errno, "listen on a control socket");
  return listener;
}

Result<> Sandbox::connect() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, "make a control connection");
  COVE_TRY(const auto address, address_in(surroundings_.run_dir, row_.id));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(errno, "connect to the sandbox's init");
  link_.emplace(std::move(socket));
  first_of_this_line_ = row_.next_process;
  readiness_ = std::make_shared<Readiness>(surroundings_.executor, link_->fd());
  surroundings_.tasks.spawn("hear an init", listen(shared_from_this(), readiness_));
  return {};
}

void Sandbox::flush() {
  if (!link_) return;
  link_->flush();
  if (link_->broken()) {
    // Not from here: whoever called may be in the middle of using it.
    boost::asio::post(surroundings_.executor, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && self->link_ && self->link_->broken()) self->on_link_closed();
    });
    return;
  }
  if (!link_->wants_write() || waiting_to_write_) return;
  waiting_to_write_ = true;
  readiness_->when_writable([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->waiting_to_write_ = false;
    self->flush();
  });
}

async::Task<> Sandbox::listen(std::shared_ptr<Sandbox> self, std::shared_ptr<Readiness> readiness) {
  while (readiness == self->readiness_ && co_await readiness->readable()) {
    if (readiness != self->readiness_) co_return;
    const auto state = self->link_->receive([&](const wire::Frame& frame) { self->handle(frame); });
    if (readiness != self->readiness_) co_return;
    if (state == InitLink::State::closed) {
      self->on_link_closed();
      co_return;
    }
    self->flush();
  }
}

void Sandbox::handle(const wire::Frame& frame) {
  if (frame.type == wire::FrameType::synced) {
    on_synced();
    return;
  }
  if (frame.type == wire::FrameType::known) {
    if (const auto known = wire::decode_known(frame.payload)) on_known(frame.process, *known);
    return;
  }
  const auto process = find_process(frame.process);
  if (!process) return;
  switch (frame.type) {
    case wire::FrameType::started:
      process->on_started();
      break;
    case wire::FrameType::spawn_failed:
      if (const auto failure = wire::decode_spawn_failed(frame.payload)) process->on_failed(*failure);
      break;
    case wire::FrameType::output:
      if (const auto output = wire::decode_output(frame.payload)) process->on_output(*output);
      break;
    case wire::FrameType::input_room:
      if (const auto taken = wire::decode_number(frame.payload)) process->on_input_room(*taken);
      break;
    case wire::FrameType::channel_room:
      if (const auto taken = wire::decode_number(frame.payload)) process->on_channel_room(*taken);
      break;
    case wire::FrameType::flood:
      process->on_flood();
      break;
    case wire::FrameType::exited:
      process->exited_ = wire::decode_exited(frame.payload);
      surroundings_.tasks.spawn("conclude a process", conclude(shared_from_this(), process));
      break;
    default:
      break;
  }
}

// A process that the front before us started, as far as it was written down.
void Sandbox::restore(const store::ProcessRow& row) {
  ProcessRequest request{.kind = row.kind == "background"  ? ProcessKind::background
                                 : row.kind == "kernel"    ? ProcessKind::kernel
                                 : row.kind == "execution" ? ProcessKind::execution
                                                           : ProcessKind::exec};
  if (request.kind == ProcessKind::kernel) {
    request.channel = true;
    request.delivery = Delivery::everything;
  }
  boost::system::error_code failed;
  if (const auto command = json::parse(row.command_json, failed); !failed && command.is_array()) {
    for (const auto& word : command.as_array()) {
      if (word.is_string()) request.argv.emplace_back(word.as_string());
    }
  }
  if (request.kind == ProcessKind::execution && !request.argv.empty()) request.known_by = request.argv.front();
  request.terminal = row.terminal;
  request.input = row.input_open ? InputMode::open : InputMode::none;
  const auto process = std::make_shared<Process>(surroundings_.executor, *this, row.number, std::move(request));
  processes_.emplace(row.number, process);
  process->started_unix_ms_ = row.started_unix_ms;
  process->started_at_ = std::chrono::steady_clock::now() - milliseconds(unix_millis() - row.started_unix_ms);
  charge(*process);
  if (row.end) {
    process->judged_ = ProcessEnd{.reason = reason_of(row.end->reason),
                                  .exit_status = row.end->exit_code.value_or(0),
                                  .signal = row.end->signal.value_or(0),
                                  .wall = milliseconds(row.end->duration_ms),
                                  .cpu = milliseconds(row.end->cpu_ms),
                                  .out_bytes = row.end->stdout_bytes,
                                  .err_bytes = row.end->stderr_bytes};
    process->input_open_ = false;
  }
}

// Init tells of a process that a front before us started. What nobody waits for any more is ended.
void Sandbox::on_known(std::uint32_t number, const wire::Known& known) {
  row_.next_process = std::max(row_.next_process, number + 1);
  const auto found = remembered_.find(number);
  if (const auto process = find_process(number); process && found == remembered_.end()) {
    // The line broke and was made again: on from what had come.
    known_again_.insert(number);
    if (known.state != wire::ProcessState::starting) process->on_started();  // said over the line that broke
    process->acknowledged_ = {};                                             // and so was this, perhaps
    link_->replay(number, process->next_);
    process->acknowledge();
    const bool input_lost = !process->input_open_ && process->request_.input == InputMode::open &&
                            process->input_taken_ < process->input_sent_;
    if (input_lost || process->channel_sent_ != known.channel_received) process->stop(Reason::cancelled);
    return;
  }
  known_again_.insert(number);
  if (found == remembered_.end()) {
    // A command whose client went with the server, or file work: that cleans up if it is asked to.
    const auto process = std::make_shared<Process>(surroundings_.executor, *this, number,
                                                   ProcessRequest{.kind = ProcessKind::internal, .history = 0});
    processes_.emplace(number, process);
    process->on_known(known);
    link_->replay(number, known.first_sequence);
    link_->signal(number, SIGTERM);
    link_->end_input(number);
    process->released_ = true;
    process->arm(kOrphanGrace);
    return;
  }
  const auto& row = found->second;
  const auto process = find_process(number);
  process->on_known(known);
  if (row.deadline_boot_ms != 0 && known.state != wire::ProcessState::ended)
    process->arm(std::max(milliseconds(0), milliseconds(row.deadline_boot_ms) - boot_time()));
  link_->replay(number, known.first_sequence);
  remembered_.erase(found);
}

void Sandbox::on_synced() {
  synced_ = true;
  // What was being started when the line broke never was.
  std::vector<std::shared_ptr<Process>> unknown;
  for (const auto& [number, process] : processes_) {
    if (!known_again_.contains(number) && !process->end_ && process->number_ < first_of_this_line_)
      unknown.push_back(process);
  }
  for (const auto& process : unknown) {
    process->finish({.reason = Reason::sandbox_gone, .exit_status = 128 + SIGKILL, .wall = process->age()});
    forget(process);
  }
  // Those init does not know any more never started, or were forgotten.
  for (const auto& [number, row] : std::exchange(remembered_, {})) {
    [[maybe_unused]] const auto erased = surroundings_.store.processes().erase(row_.id, number);
  }
  changed_.notify_all();
}

// Init is gone, and then nobody listens; or the line broke, and then it is made again.
void Sandbox::on_link_closed() {
  readiness_->give_up();
  readiness_.reset();
  link_.reset();
  waiting_to_write_ = false;
  synced_ = false;
  known_again_.clear();
  // Input that was on its way may be lost: what comes of it would be wrong, so nothing may.
  for (const auto& [number, process] : processes_) {
    if (process->input_open_ && process->input_taken_ < process->input_sent_) process->input_open_ = false;
  }
  const bool alive = state_ == State::running || state_ == State::creating;
  if (!alive || !connect()) on_link_lost();
}

// Init is gone: nothing inside lives any more.
void Sandbox::on_link_lost() {
  if (readiness_) readiness_->give_up();
  readiness_.reset();
  link_.reset();
  remembered_.clear();
  for (const auto& [number, process] : std::exchange(processes_, {})) {
    process->sandbox_ = nullptr;
    if (process->end_) continue;
    const auto reason = process->stopped_by_us_.value_or(Reason::sandbox_gone);
    process->finish({.reason = reason,
                     .exit_status = reason == Reason::timeout ? 124 : 128 + SIGKILL,
                     .signal = SIGKILL,
                     .wall = process->age(),
                     .note = "the sandbox ended"});
  }
  changed_.notify_all();
}

}  // namespace cove::sandbox
