#include "tools/launch.hpp"

#include <signal.h>

#include <fmt/format.h>

#include "base/random.hpp"
#include "guest/outcome.hpp"
#include "run/workplace.hpp"
#include "sandbox/lease.hpp"
#include "sandbox/poll_interval.hpp"
#include "sandbox/process.hpp"
#include "sandbox/reader.hpp"

namespace cove::tools {
namespace {

using mcp::client::Pipes;
using mcp::client::ServerConfig;
using sandbox::Event;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = 256U << 10;
constexpr std::size_t kErrors = 4U << 10;  // kept of standard error
constexpr std::size_t kWritePiece = 64U << 10;

// A process in a sandbox, and the sandbox if it is there for the process alone.
class SandboxPipes : public Pipes {
 public:
  SandboxPipes(std::shared_ptr<sandbox::Process> process, std::shared_ptr<sandbox::Sandbox> sandbox,
               std::optional<sandbox::Lease> lease)
      : process_(std::move(process)), sandbox_(std::move(sandbox)), lease_(std::move(lease)), reader_(process_, 1) {}

  ~SandboxPipes() override {
    if (!process_->end()) process_->stop(sandbox::Reason::cancelled);
    sandbox_->release(process_);
  }

  async::Task<Result<>> write(std::string bytes) override {
    const auto process = process_;
    for (std::size_t at = 0; at < bytes.size(); at += kWritePiece) {
      auto written = co_await process->write_input(bytes.substr(at, kWritePiece));
      if (!written) co_return fail(Errc::unavailable, "the server takes no more input");
    }
    co_return Result<>();
  }

  async::Task<Result<std::string>> read() override {
    const auto process = process_;
    while (true) {
      const auto batch = reader_.take(kPiece);
      std::string out;
      for (const auto& event : batch.events) {
        if (event.kind == Event::Kind::out) out += event.bytes;
        if (event.kind == Event::Kind::err) remember(event.bytes);
      }
      if (!out.empty() || batch.over) co_return out;
      if (batch.events.empty()) co_await process->changed().wait_until(Clock::now() + sandbox::kPollInterval);
    }
  }

  void close_input() override { [[maybe_unused]] const auto ended = process_->end_input(); }
  void terminate() override { [[maybe_unused]] const auto sent = process_->signal(SIGTERM); }
  void kill() override { process_->stop(sandbox::Reason::cancelled); }

  async::Task<bool> wait_end(Clock::time_point until) override {
    const auto process = process_;
    while (!process->end() && Clock::now() < until)
      co_await process->changed().wait_until(std::min(until, Clock::now() + sandbox::kPollInterval));
    co_return process->end().has_value();
  }

  [[nodiscard]] std::string errors() const override { return errors_; }

  [[nodiscard]] std::string end() const override {
    const auto& end = process_->end();
    if (!end) return {};
    if (!end->note.empty()) return end->note;
    if (end->signal != 0) return "killed by " + std::string(guest::signal_name(end->signal));
    return fmt::format("exit status {}", end->exit_status);
  }

 private:
  void remember(std::string_view bytes) {
    errors_ += bytes;
    if (errors_.size() > kErrors) errors_.erase(0, errors_.size() - kErrors);
  }

  std::shared_ptr<sandbox::Process> process_;
  std::shared_ptr<sandbox::Sandbox> sandbox_;
  std::optional<sandbox::Lease> lease_;
  sandbox::Reader reader_;
  std::string errors_;
};

using Started = Result<std::unique_ptr<Pipes>>;

async::Task<Started> start_in(std::shared_ptr<sandbox::Sandbox> sandbox, std::optional<sandbox::Lease> lease,
                              ServerConfig config) {
  sandbox::ProcessRequest request{.kind = sandbox::ProcessKind::internal,
                                  .directory = config.cwd,
                                  .input = sandbox::InputMode::open,
                                  .delivery = sandbox::Delivery::everything};
  request.argv.push_back(config.command);
  request.argv.insert(request.argv.end(), config.args.begin(), config.args.end());
  for (const auto& [name, value] : config.env) request.variables.push_back(fmt::format("{}={}", name, value));
  auto process = co_await sandbox->start(std::move(request));
  if (!process) co_return tl::unexpected<Error>(process.error());
  if (const auto& end = (*process)->end(); end && !end->note.empty())
    co_return fail(Errc::unavailable, fmt::format("the server did not start: {}", end->note));
  std::unique_ptr<Pipes> pipes =
      std::make_unique<SandboxPipes>(std::move(*process), std::move(sandbox), std::move(lease));
  co_return pipes;
}

async::Task<Started> start_inside(std::weak_ptr<sandbox::Sandbox> weak, ServerConfig config) {
  auto sandbox = weak.lock();
  if (!sandbox) co_return fail(Errc::not_found, "the sandbox is gone");
  auto started = co_await start_in(std::move(sandbox), std::nullopt, std::move(config));
  co_return started;
}

async::Task<Started> start_alone(sandbox::Core& core, Principal principal, std::string network_json,
                                 ServerConfig config) {
  sandbox::CreateRequest request;
  request.tenant = principal.tenant;
  request.name = fmt::format("tool-{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
  request.purpose = sandbox::Purpose::throwaway;
  request.limits = run::default_limits(*core.config());
  request.network_json = network_json.empty() ? R"({"mode":"none"})" : std::move(network_json);
  const auto quotas = core.authority.allowance(principal).sandboxes;
  auto made = co_await core.registry.ensure(std::move(request), quotas, sandbox::IfThere::refuse);
  if (!made) co_return tl::unexpected<Error>(made.error());
  sandbox::Lease lease(core.registry, made->sandbox);
  auto sandbox = made->sandbox;
  auto started = co_await start_in(std::move(sandbox), std::move(lease), std::move(config));
  co_return started;
}

}  // namespace

mcp::client::Launch launch_inside(std::weak_ptr<sandbox::Sandbox> sandbox) {
  return [sandbox](ServerConfig config) { return start_inside(sandbox, std::move(config)); };
}

mcp::client::Launch launch_in_own_sandbox(sandbox::Core& core, Principal principal, std::string network_json) {
  return [&core, principal, network_json](ServerConfig config) {
    return start_alone(core, principal, network_json, std::move(config));
  };
}

}  // namespace cove::tools
