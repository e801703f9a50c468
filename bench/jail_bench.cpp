// A sandbox made by a long-lived keeper, and the whole `cove run` command, beside bubblewrap doing the same: in one
// run, as ratios.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/init_link.hpp"
#include "host/state_dir.hpp"
#include "keeper/keeper.hpp"
#include "sys/record.hpp"

namespace {

using namespace cove;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

constexpr std::size_t kRuns = 200;
constexpr std::size_t kWarmUp = 10;

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "bench: {}\n", why);
  std::exit(1);
}

double millis(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

struct Samples {
  std::vector<double> values;
  [[nodiscard]] double at(double quantile) const {
    auto sorted = values;
    std::ranges::sort(sorted);
    return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(quantile * static_cast<double>(sorted.size())))];
  }
};

pid_t spawn(const Words& words) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  if (::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0) give_up("cannot start " + words[0]);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// `count` runs of a command, `at_once` of them at any time.
Samples commands(const Words& words, std::size_t count, std::size_t at_once) {
  Samples samples;
  std::map<pid_t, Clock::time_point> flying;
  std::size_t begun = 0;
  while (samples.values.size() < count) {
    while (begun < count && flying.size() < at_once) {
      const auto start = Clock::now();
      flying[spawn(words)] = start;
      ++begun;
    }
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    const auto found = flying.find(pid);
    if (found == flying.end()) continue;
    if (status != 0) give_up(words[0] + " failed");
    samples.values.push_back(millis(found->second));
    flying.erase(found);
  }
  return samples;
}

// The same through one keeper: create, run, destroy, each counted until nothing of the sandbox is left.
class Sandboxes {
 public:
  explicit Sandboxes(keeper::KeeperLink& keeper) : keeper_(keeper) {}

  Samples run(const Words& words, std::size_t count, std::size_t at_once) {
    Samples samples;
    std::size_t begun = 0;
    while (samples.values.size() < count) {
      while (begun < count && flying_.size() < at_once) {
        begin(words);
        ++begun;
      }
      std::vector<pollfd> polls{{.fd = keeper_.fd(), .events = POLLIN, .revents = 0}};
      std::vector<SandboxId> ids;
      for (auto& [id, flight] : flying_) {
        if (flight.ended) continue;
        flight.link.flush();
        polls.push_back({.fd = flight.link.fd(), .events = POLLIN, .revents = 0});
        ids.push_back(id);
      }
      if (::poll(polls.data(), polls.size(), 10'000) <= 0) give_up("a sandbox does not answer");
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (polls[i + 1].revents != 0) hear(ids[i]);
      }
      if (polls[0].revents != 0) hear_keeper(samples);
    }
    return samples;
  }

  // Where the time of one sandbox goes.
  struct Phases {
    Samples locked;
    Samples started;
    Samples ran;
    Samples gone;
  };
  Phases phases;

 private:
  struct Flight {
    guest::InitLink link;
    Clock::time_point start;
    double locked = 0;   // every lock is on and init runs
    double started = 0;  // the program runs
    double exited = 0;
    bool ended = false;
  };

  void begin(const Words& words) {
    const auto start = Clock::now();
    auto ends = guest::InitLink::create();
    if (!ends) give_up(ends.error().message);
    const auto id = SandboxId::random();
    const jail::Limits limits;
    const wire::KeeperRequest request{.verb = wire::KeeperVerb::create,
                                      .serial = 1,
                                      .id = id,
                                      .memory_bytes = limits.memory_bytes,
                                      .disk_bytes = limits.disk_bytes,
                                      .inodes = limits.inodes,
                                      .pids = limits.pids,
                                      .cpu_millis = 2000};
    if (const auto sent = keeper_.send(request, sys::descriptors(std::move(ends->second))); !sent)
      give_up(sent.error().message);
    auto& flight = flying_.emplace(id, Flight{.link = std::move(ends->first), .start = start}).first->second;
    flight.link.spawn(1, {.after_exit = wire::AfterExit::end_sandbox,
                          .output_limit = {.bytes = 4096},
                          .directory = "/workspace",
                          .argv = words,
                          .environment = {"PATH=/usr/bin:/bin", "HOME=/home/cove"}});
    flight.link.end_input(1);
    flight.link.flush();
  }

  void hear(const SandboxId& id) {
    auto& flight = flying_.at(id);
    bool exited = false;
    const auto state = flight.link.receive([&](const wire::Frame& frame) {
      if (frame.type == wire::FrameType::spawn_failed) give_up("the program did not start");
      if (frame.type == wire::FrameType::started) flight.started = millis(flight.start);
      if (frame.type != wire::FrameType::exited) return;
      exited = true;
      if (const auto end = wire::decode_exited(frame.payload); !end || end->exit_code != 0)
        give_up("the program failed");
    });
    if (!exited && state == guest::InitLink::State::closed) give_up("a sandbox ended early");
    if (!exited) return;
    flight.ended = true;
    flight.exited = millis(flight.start);
    if (const auto sent = keeper_.send({.verb = wire::KeeperVerb::destroy, .serial = 2, .id = id}); !sent)
      give_up(sent.error().message);
  }

  void hear_keeper(Samples& samples) {
    while (true) {
      const auto reply = keeper_.receive();
      if (!reply) give_up(reply.error().message);
      if (!*reply) return;
      if ((*reply)->word == wire::KeeperWord::failed)
        give_up(fmt::format("could not {}: {}", static_cast<const char*>((*reply)->message),
                            std::strerror((*reply)->sys_errno)));
      const auto found = flying_.find((*reply)->id);
      if ((*reply)->word == wire::KeeperWord::created) found->second.locked = millis(found->second.start);
      if ((*reply)->word != wire::KeeperWord::gone) continue;
      auto& flight = found->second;
      phases.locked.values.push_back(flight.locked);
      phases.started.values.push_back(flight.started - flight.locked);
      phases.ran.values.push_back(flight.exited - flight.started);
      phases.gone.values.push_back(millis(flight.start) - flight.exited);
      samples.values.push_back(millis(found->second.start));
      flying_.erase(found);
    }
  }

  keeper::KeeperLink& keeper_;
  std::map<SandboxId, Flight> flying_;
};

Words bubblewrap(const Words& words) {
  Words all{"bwrap",  "--unshare-all", "--ro-bind", "/usr", "/usr",      "--symlink", "usr/bin",
            "/bin",   "--symlink",     "usr/lib",   "/lib", "--symlink", "usr/lib64", "/lib64",
            "--proc", "/proc",         "--dev",     "/dev", "--tmpfs",   "/tmp",      "--"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

void row(const std::string& what, const Samples& peer, const Samples& ours, double goal) {
  fmt::print("{:<44} {:>7.2f} {:>7.2f} {:>8.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f}\n", what, peer.at(0.5),
             peer.at(0.99), ours.at(0.5), ours.at(0.99), ours.at(0.5) / peer.at(0.5), ours.at(0.99) / peer.at(0.99),
             goal);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) give_up("usage: jail_bench COVE");
  const std::string cove = argv[1];
  auto keeper = keeper::Keeper::start({.state_dir = host::default_state_dir(), .device_sets = 64});
  if (!keeper) give_up(keeper.error().message);
  Sandboxes sandboxes(keeper->link());

  fmt::print("{} runs each, milliseconds; ratio below 1 means Cove is faster than bubblewrap\n", kRuns);
  fmt::print("{:<44} {:>15} {:>16} {:>15} {:>7}\n", "", "bwrap p50 p99", "cove p50 p99", "ratio p50 p99", "goal");
  const std::vector<std::pair<std::string, Words>> programs{
      {"/bin/true", {"/bin/true"}}, {"python3 print(1)", {"/usr/bin/python3", "-c", "print(1)"}}};
  for (const auto& [name, words] : programs) {
    Words whole{cove, "run", "--"};
    whole.insert(whole.end(), words.begin(), words.end());
    for (const std::size_t at_once : {std::size_t{1}, std::size_t{8}}) {
      const auto label = fmt::format("{}, {}", name, at_once == 1 ? "one after another" : "8 at once");
      commands(bubblewrap(words), kWarmUp, at_once);
      sandboxes.run(words, kWarmUp, at_once);
      commands(whole, kWarmUp, at_once);
      // In slices of each in turn, so that a busy moment of the machine falls on all alike.
      Samples peer;
      Samples kept;
      Samples command;
      const auto add = [](Samples& to, const Samples& from) {
        to.values.insert(to.values.end(), from.values.begin(), from.values.end());
      };
      for (std::size_t slice = 0; slice < 10; ++slice) {
        add(peer, commands(bubblewrap(words), kRuns / 10, at_once));
        add(kept, sandboxes.run(words, kRuns / 10, at_once));
        add(command, commands(whole, kRuns / 10, at_once));
      }
      row("keeper: " + label, peer, kept, 1.0);
      fmt::print("{:<44} locked {:.2f}, started {:.2f}, ran {:.2f}, gone {:.2f}\n", "  of which, p50",
                 sandboxes.phases.locked.at(0.5), sandboxes.phases.started.at(0.5), sandboxes.phases.ran.at(0.5),
                 sandboxes.phases.gone.at(0.5));
      sandboxes.phases = {};
      row("cove run: " + label, peer, command, 2.0);
    }
  }
  return 0;
}
