#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "jail/plan.hpp"
#include "keeper/sandbox_table.hpp"
#include "sys/cgroup.hpp"
#include "sys/landlock.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::keeper {

// What the jail needs to know of a sandbox or a zygote, from a request and from what this host enforces.
class Plans {
 public:
  Plans(const jail::Root& host, const sys::CgroupTree& tree) : host_(host), tree_(tree) {}

  // Errc::not_found when there is no such template. 0 is the host's root.
  [[nodiscard]] Result<jail::Root> root(std::uint32_t number) const;
  [[nodiscard]] jail::PlanInput input(const wire::KeeperRequest& request, const Sandbox& sandbox,
                                      const jail::Root& root) const;
  // The locks of a sandbox that runs already; they are the same in every root.
  [[nodiscard]] jail::Locks locks(const wire::KeeperRequest& request, const Sandbox& sandbox) const;
  [[nodiscard]] Result<jail::Plan> zygote(std::uint32_t root) const;

 private:
  const jail::Root& host_;
  const sys::CgroupTree& tree_;
  int landlock_abi_ = sys::landlock_abi();
};

}  // namespace cove::keeper
