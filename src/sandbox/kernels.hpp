#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sandbox/kernel.hpp"

namespace cove::sandbox {

// The kernels of every sandbox.
class Kernels {
 public:
  static constexpr std::size_t kMax = 32;  // in one sandbox

  Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // Of executions that are over and can be read again, in bytes. Past its bound a tenant loses its own oldest; past the
  // bound of all, the tenant that has the most does.
  void set_recent_bounds(UsageBounds bounds) { totals_->recent_bounds = bounds; }

  // Errc::quota when the sandbox has kMax of them.
  async::Task<Result<std::shared_ptr<Kernel>>> start(std::shared_ptr<Sandbox> sandbox, KernelOptions options);
  [[nodiscard]] std::vector<std::shared_ptr<Kernel>> of(const Sandbox& sandbox) const;
  // Errc::not_found.
  [[nodiscard]] Result<std::shared_ptr<Kernel>> find(const Sandbox& sandbox, std::string_view id) const;
  // Returns when it is gone.
  async::Task<> remove(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Kernel> kernel, journal::Actor actor = {});

  // For the Registry: those that a server before us left in a sandbox; and a sandbox that is gone.
  void adopt(const std::shared_ptr<Sandbox>& sandbox);
  void forget(const Sandbox& sandbox) { by_sandbox_.erase(sandbox.row().id); }
  // Ends what runs and waits in them, and not the kernels.
  void cancel_all(Reason reason);
  [[nodiscard]] std::size_t count(Kernel::State state) const;
  [[nodiscard]] std::uint64_t ended(Reason reason) const;  // executions
  [[nodiscard]] const Amount& recent() const { return totals_->recent.all(); }
  [[nodiscard]] const std::uint64_t& recent_evicted() const { return totals_->recent_evicted; }

 private:
  bool forget_oldest(const std::string& tenant);

  // k2 before k10.
  struct ById {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    }
  };
  struct Group {
    std::map<std::string, std::shared_ptr<Kernel>, ById> kernels;
    std::uint64_t next = 1;
    std::size_t starting = 0;
  };
  std::map<std::string, Group> by_sandbox_;
  std::shared_ptr<KernelTotals> totals_ = std::make_shared<KernelTotals>();
};

}  // namespace cove::sandbox
