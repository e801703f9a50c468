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

// A ticket for one execution: a slot of the server, counted against the limits of the key. Waits up to `patience`, or
// as long as the configuration says. Fails as Admission::enter does.
async::Task<Result<sandbox::Admission::Ticket>> admit(sandbox::Core& core, Caller caller,
                                                      std::optional<std::chrono::milliseconds> patience = {});

// The same for a background process, which takes no slot. Fails as Admission::begin_background does.
Result<> admit_background(sandbox::Core& core, const Principal& principal);

// The default limits of a sandbox.
// `memory_bytes`: another size than the usual one, which the disk space follows; 0: the usual one.
jail::Limits default_limits(const config::Config& config, std::uint64_t memory_bytes = 0);

// A sandbox for one run: not listed, not stored, destroyed with its lease.
struct Throwaway {
  std::string_view prefix;  // of its name, for logs
  jail::Limits limits;
  bool python = false;            // it needs a warm interpreter at once
  bool light = false;             // and a light one will do (light.hpp)
  std::string network_json = {};  // as CreateRequest::network_json
};
// From the pool, or created now. Fails as Registry::ensure does.
async::Task<Result<sandbox::Lease>> acquire(sandbox::Core& core, Principal principal, Throwaway wanted);

// A sandbox to run in, and the ticket for it. Keeps the sandbox; destroys a throwaway one with itself.
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
