#include "server/drain.hpp"

#include <algorithm>

#include "async/deadline.hpp"
#include "base/units.hpp"

namespace cove::server {

using async::Task;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kStopTime{3000};        // for work that was stopped to say so
constexpr std::chrono::milliseconds kStopTimeHurried{500};  // the same when somebody is in a hurry
constexpr std::chrono::seconds kEndTime{30};                // for sandboxes to be gone
constexpr std::chrono::milliseconds kPoll{5};

}  // namespace

void Drain::begin() {
  services_.gate.close();
  const auto running = services_.gate.inside();
  services_.log.info(running == 0
                         ? std::string("draining")
                         : fmt::format("draining: waiting for {} execution{}, up to {}; Ctrl-C again ends {} now",
                                       running, running == 1 ? "" : "s", format_duration(services_.config->drain),
                                       running == 1 ? "it" : "them"));
  services_.server.drain();
}

void Drain::hurry() {
  hurry_ = true;
  services_.gate.interrupt();
}

Task<bool> Drain::run() {
  co_await services_.registry.pool().close();
  co_await wait_for_work();
  co_await stop_work();
  const bool ended = co_await end_sandboxes();
  services_.registry.journal().close();
  services_.log.info(fmt::format("stopped kept={}", services_.registry.size()));
  co_await services_.server.stop();
  co_return ended;
}

Task<> Drain::wait_for_work() {
  // Executions in the background outlive a server that keeps its sandboxes: they are not waited for.
  if (services_.config->on_exit == config::OnExit::keep) services_.jobs.let_go();
  if (!hurry_) co_await services_.gate.wait_empty(Clock::now() + services_.config->drain);
}

Task<> Drain::stop_work() {
  for (const auto& sandbox : services_.registry.all()) {
    for (const auto& process : sandbox->processes()) {
      if (process->request().kind == sandbox::ProcessKind::exec) process->stop(sandbox::Reason::shutdown);
    }
  }
  services_.registry.kernels().cancel_all(sandbox::Reason::shutdown);
  if (services_.config->on_exit == config::OnExit::destroy) services_.jobs.end_all();
  co_await services_.gate.wait_empty(Clock::now() + (hurry_ ? kStopTimeHurried : kStopTime));
}

Task<bool> Drain::end_sandboxes() {
  // Nobody could find a throwaway again: it goes in any case.
  const bool all = services_.config->on_exit == config::OnExit::destroy;
  const auto goes = [all](const auto& sandbox) { return all || sandbox->purpose() == sandbox::Purpose::throwaway; };
  const auto left = [&] {
    const auto sandboxes = services_.registry.all();
    return services_.registry.leaving() > 0 || std::ranges::any_of(sandboxes, goes);
  };
  for (const auto& sandbox : services_.registry.all()) {
    if (goes(sandbox)) services_.tasks.spawn("end a sandbox", services_.registry.remove(sandbox, "shutdown"));
  }
  const auto until = Clock::now() + kEndTime;
  while (left() && Clock::now() < until) co_await async::sleep_for(kPoll);
  co_return !left();
}

}  // namespace cove::server
