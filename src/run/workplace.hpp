#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "async/task.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "jail/plan.hpp"
#include "run/caller.hpp"
#include "sandbox/core.hpp"
#include "sandbox/lease.hpp"
#include "sandbox/poll_interval.hpp"

namespace cove::run {

// The right to run one thing now: a place among those that run, and one of the executions that the key allows.
// Waits `patience` for it, or as long as the server's own setting says. Fails as Admission::enter does.
async::Task<Result<sandbox::Admission::Ticket>> admit(sandbox::Core& core, Caller caller,
                                                      std::optional<std::chrono::milliseconds> patience = {});

// The same for a process in the background, which takes no place. Fails as Admission::begin_background does.
Result<> admit_background(sandbox::Core& core, const Principal& principal);

// The limits of a sandbox when nobody asks for others.
jail::Limits default_limits(const config::Config& config);

// A sandbox for one piece of work: in no list, in no table, gone with its lease.
struct Throwaway {
  std::string_view prefix;  // of its name, which shows only in logs
  jail::Limits limits;
  bool python = false;  // it will want a warm interpreter at once
};
// From the pool, or made now. Fails as Registry::ensure does.
async::Task<Result<sandbox::Lease>> acquire(sandbox::Core& core, Principal principal, Throwaway wanted);

// Where something runs, with the right to run it. The sandbox stays while this lives; a throwaway ends with it.
class Workplace {
 public:
  Workplace(sandbox::Admission::Ticket ticket, sandbox::Lease lease);
  Workplace(sandbox::Admission::Ticket ticket, std::shared_ptr<sandbox::Sandbox> sandbox);

  [[nodiscard]] const std::shared_ptr<sandbox::Sandbox>& sandbox() const { return sandbox_; }

 private:
  sandbox::Admission::Ticket ticket_;
  std::shared_ptr<sandbox::Sandbox> sandbox_;
  std::variant<sandbox::Lease, sandbox::Sandbox::Activity> hold_;
};

}  // namespace cove::run
