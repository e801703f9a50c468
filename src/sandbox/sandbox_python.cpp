// Interpreters that come into a sandbox: born from a zygote, or started cold.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/clock.hpp"
#include "sandbox/environment.hpp"
#include "sandbox/sandbox.hpp"
#include "sys/record.hpp"

namespace cove::sandbox {
namespace {

// One end for init to hold, one for the newborn.
struct Ends {
  UniqueFd init;
  UniqueFd child;
};

enum class Direction { in, out };

Result<Ends> make_pipe(Direction direction) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  UniqueFd read(ends[0]);
  UniqueFd write(ends[1]);
  if (direction == Direction::in) return Ends{.init = std::move(write), .child = std::move(read)};
  return Ends{.init = std::move(read), .child = std::move(write)};
}

Result<Ends> make_channel() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  return Ends{.init = UniqueFd(ends[0]), .child = UniqueFd(ends[1])};
}

struct Streams {
  std::vector<UniqueFd> init;
  std::vector<UniqueFd> child;
};

Result<Streams> make_streams() {
  COVE_TRY(auto in, make_pipe(Direction::in));
  COVE_TRY(auto out, make_pipe(Direction::out));
  COVE_TRY(auto err, make_pipe(Direction::out));
  COVE_TRY(auto channel, make_channel());
  return Streams{
      .init = sys::descriptors(std::move(in.init), std::move(out.init), std::move(err.init), std::move(channel.init)),
      .child =
          sys::descriptors(std::move(in.child), std::move(out.child), std::move(err.child), std::move(channel.child))};
}

}  // namespace

// Without keys everybody is one tenant.
std::uint32_t ZygoteLines::of(const std::string& tenant) {
  if (sharing_ == Sharing::everyone || tenant.empty() || tenant == kDefaultTenant) return 0;
  return numbers_.emplace(tenant, static_cast<std::uint32_t>(numbers_.size() + 1)).first->second;
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::give_birth(ProcessRequest request) {
  auto streams = make_streams();
  if (!streams) co_return tl::unexpected<Error>(streams.error());
  const auto number = row_.next_process++;
  if (auto written = write_down(number, request); !written) co_return tl::unexpected<Error>(written.error());
  const bool no_input = request.input == InputMode::none;
  const auto process = add(number, std::move(request));
  auto wanted = this->request(wire::KeeperVerb::birth);
  wanted.zygote = surroundings_.zygotes.of(row_.tenant);
  ++births_;
  auto born = co_await surroundings_.keeper.ask(wanted, std::move(streams->child));
  --births_;
  changed_.notify_all();
  if (born && !process->end_ && link_) {
    link_->handover(number, {.pid = born->born_pid, .output_limit = process->request_.output_limit},
                    std::move(streams->init));
    if (no_input) link_->end_input(number);
    flush();
    co_await see_born(process);
    co_return process;
  }
  // Whatever was born finds its channel closed, and ends.
  take_back(process);
  if (!born) co_return tl::unexpected<Error>(born.error());
  co_return not_there();
}

async::Task<Result<>> Sandbox::keep_python_ready() {
  const auto self = shared_from_this();
  ProcessRequest request{
      .kind = ProcessKind::internal, .argv = {"python3"}, .directory = "/", .input = InputMode::open, .channel = true};
  auto born = co_await give_birth(std::move(request));
  if (!born) co_return tl::unexpected<Error>(born.error());
  if ((*born)->end() || (*born)->failure_) co_return fail(Errc::unavailable, "the interpreter did not start");
  ++surroundings_.pythons.warm;
  spare_ = std::move(*born);
  co_return Result<>();
}

// It was born for nobody in particular: what the request says is told to init now.
std::shared_ptr<Process> Sandbox::take_spare(ProcessRequest& request) {
  const auto spare = std::exchange(spare_, nullptr);
  if (!spare || spare->end() || !link_) return nullptr;
  if (!write_down(spare->number(), request)) return nullptr;
  const bool no_input = request.input == InputMode::none;
  spare->request_ = std::move(request);
  spare->request_.variables.clear();
  spare->input_open_ = !no_input;
  spare->started_at_ = std::chrono::steady_clock::now();
  spare->started_unix_ms_ = unix_millis();
  spare->oom_kills_before_ = oom_kills_;
  spare->pids_refused_before_ = pids_refused_;
  link_->limit_output(spare->number(), spare->request_.output_limit);
  if (no_input) link_->end_input(spare->number());
  flush();
  return spare;
}

std::vector<std::shared_ptr<Process>> Sandbox::interpreters() const {
  std::vector<std::shared_ptr<Process>> out;
  for (const auto& [number, process] : processes_) {
    if (process->request_.kind == ProcessKind::kernel && !process->end_) out.push_back(process);
  }
  return out;
}

boost::json::object Sandbox::first_message(std::string_view mode, const ProcessRequest& request) const {
  return sandbox::first_message(mode, environment(request));
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::start_python(ProcessRequest request) {
  const auto self = shared_from_this();
  if (const auto* from = surroundings_.templates.find(row_.template_name); from != nullptr && !from->kernels)
    co_return fail(
        Errc::conflict,
        fmt::format("template {} has no Python for this: build one with the package python3-ipython", from->name));
  if (auto ready = co_await be_ready(request.kind, request.abandoned); !ready)
    co_return tl::unexpected<Error>(ready.error());
  request.channel = true;
  request.directory = "/";  // it goes where its first message says
  if (request.argv.empty()) request.argv = {"python3"};
  if (auto spare = take_spare(request)) co_return spare;
  auto born = co_await give_birth(request);
  if (born && !(*born)->failure_) {
    ++surroundings_.pythons.warm;
    co_return born;
  }
  if (state_ != State::running || !link_) co_return not_there();
  ++surroundings_.pythons.cold;
  // What it is known by stays behind the command: a server after us reads it there.
  const auto known_by = std::exchange(request.argv, {"/usr/bin/python3", "-I", "-B", "/cove/python/cold.py"});
  request.argv.insert(request.argv.end(), known_by.begin() + 1, known_by.end());
  auto started = co_await attempt(request, wire::SpawnKind::program);
  if (started && (*started)->failure_) explain_failure(**started, "python3");
  co_return started;
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::start_node(ProcessRequest request) {
  const auto self = shared_from_this();
  if (auto ready = co_await be_ready(request.kind, request.abandoned); !ready)
    co_return tl::unexpected<Error>(ready.error());
  request.channel = true;
  request.directory = "/";
  request.argv.insert(request.argv.begin() + 1, "/cove/javascript/kernel.js");
  auto started = co_await attempt(request, wire::SpawnKind::program);
  if (started && (*started)->failure_) explain_failure(**started, "node");
  co_return started;
}

}  // namespace cove::sandbox
