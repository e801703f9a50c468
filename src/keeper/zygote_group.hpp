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
  bool light = false;                // programs that need few of them are born from light zygotes, which have no others
  std::uint32_t births = 0;          // after so many a zygote is replaced; 0: there are no zygotes
  std::chrono::seconds interval{0};  // but not before it is so old: its modules cost a second of a processor's time
  std::chrono::seconds age{0};       // and in any case when it is so old
};

// Zygotes of one root that share a memory layout: one serves births; now and then another warms up to replace it. No
// call waits for a zygote: while it is cold, dead or stuck births fail with Errc::unavailable, and the interpreter is
// started cold.
class ZygoteGroup {
 public:
  enum class Weight : std::uint8_t { full, light };
  ZygoteGroup(ZygoteOptions options, Weight weight) : options_(std::move(options)), weight_(weight) {}
  // Starts zygotes from now on, in the root of `plan`. Once, in the keeper's own root.
  void open(jail::Plan plan);

  struct Request {
    std::uint32_t serial;  // comes back in BirthResult
    int init_pidfd;
    const jail::Locks& locks;
    const sys::Cgroup* cgroup;
    std::vector<UniqueFd> streams;  // stdin, stdout, stderr, channel
  };
  Result<> request_birth(Request request);
  [[nodiscard]] bool serves() const { return serving_.has_value(); }

  struct BirthResult {
    std::uint32_t serial = 0;
    Result<zygote::Born> born;
    bool slow = false;  // it timed out, perhaps because of what runs in the sandbox
  };
  // The births that have ended since the last call. Also starts, replaces and reaps zygotes.
  std::vector<BirthResult> collect_births();
  // Readable when collect_births() has something to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  // Milliseconds until collect_births() has something to do without being readable; -1 when never.
  [[nodiscard]] int wait_millis() const;
  // No more births; pending ones are dropped. Returns when no zygote is left.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  struct Zygote {
    zygote::Started process;
    std::uint32_t number;
    Clock::time_point since;
    std::uint32_t births = 0;        // requested of it
    std::uint32_t done = 0;          // of these, finished or handed over
    Clock::time_point busy_since{};  // when its current birth began
    bool ready = false;
  };
  struct PendingBirth {
    std::uint32_t serial;
    UniqueFd report;
    Clock::time_point until;
    std::uint32_t zygote;
    std::uint32_t order;  // among those asked of that zygote, from 1
  };
  void start_zygote();
  void read_messages(Zygote& zygote);
  // drain: it finishes the births requested of it, and ends by itself.
  enum class Retirement { drain, kill };
  void retire(std::optional<Zygote>& zygote, Retirement how);
  [[nodiscard]] bool stuck() const;
  void watch(int fd);
  [[nodiscard]] Clock::time_point worn_out_at(const Zygote& zygote) const;

  ZygoteOptions options_;
  Weight weight_;
  UniqueFd epoll_;
  std::optional<jail::Plan> plan_;
  std::optional<Zygote> serving_;
  std::optional<Zygote> warming_;
  std::list<PendingBirth> births_;
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
