#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "jail/plan.hpp"
#include "sys/cgroup.hpp"
#include "zygote/birth.hpp"
#include "zygote/start.hpp"

namespace cove::keeper {

struct ZygoteOptions {
  std::vector<std::string> modules;  // to load before the first birth
  std::uint32_t births = 0;          // after so many a zygote is replaced; 0: there are no zygotes
  std::chrono::seconds age{0};       // or when it is so old
};

// The keeper's zygotes. One that serves, and now and then one that warms up to take its place. Never waits for one: a
// zygote that is cold, dead or stuck makes births fail with Errc::unavailable, and whoever wanted one starts cold.
class ZygoteGroup {
 public:
  explicit ZygoteGroup(ZygoteOptions options) : options_(std::move(options)) {}
  // `plan` tells the root. Once, in the keeper's room; zygotes are started from then on.
  void open(jail::Plan plan);

  struct Request {
    std::uint32_t serial;  // comes back in Done
    int init_pidfd;
    const jail::Locks& locks;
    const sys::Cgroup* cgroup;
    std::vector<UniqueFd> streams;  // stdin, stdout, stderr, channel
  };
  Result<> ask(Request request);

  struct Done {
    std::uint32_t serial = 0;
    Result<zygote::Born> born;
    bool slow = false;  // nothing was heard of it in time: what runs in the sandbox may be the cause
  };
  // What has come of births since the last call; also looks after the zygotes.
  std::vector<Done> turn();
  // Readable when turn() has something to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  // Milliseconds until turn() has something to do without being readable; -1 when never.
  [[nodiscard]] int wait_millis() const;
  // No more births; those on their way are given up. Returns when no zygote is left.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  struct Zygote {
    zygote::Started process;
    std::uint32_t number;
    Clock::time_point since;
    std::uint32_t births = 0;         // asked of it
    std::uint32_t done = 0;           // of these, out of its hands
    Clock::time_point at_it_since{};  // the one it is at, if there is one
    bool ready = false;
  };
  struct Birth {
    std::uint32_t serial;
    UniqueFd report;
    Clock::time_point until;
    std::uint32_t zygote;
    std::uint32_t order;  // among those asked of that zygote, from 1
  };
  void start_zygote();
  void hear(Zygote& zygote);
  // Lets it finish what it was asked, or kills it.
  enum class Farewell { finish, now };
  void retire(std::optional<Zygote>& zygote, Farewell farewell);
  [[nodiscard]] bool stuck() const;
  void watch(int fd);
  [[nodiscard]] bool worn_out(const Zygote& zygote) const;

  ZygoteOptions options_;
  UniqueFd epoll_;
  std::optional<jail::Plan> plan_;
  std::optional<Zygote> serving_;
  std::optional<Zygote> warming_;
  std::list<Birth> births_;
  struct Retired {
    zygote::Started process;
    Clock::time_point until;
  };
  std::vector<Retired> retired_;  // to be reaped
  std::uint32_t next_number_ = 1;
  Clock::time_point next_start_{};
  std::chrono::milliseconds back_off_{0};
};

}  // namespace cove::keeper
