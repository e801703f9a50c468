#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "keeper/sandbox_table.hpp"
#include "sys/cgroup.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::keeper {

// Sandboxes of the keeper before, as the kernel shows them.

// The sandbox that `request` describes. The front says where it was; the kernel says whether it is one of ours, so a
// front that lies gains no power it did not have. Errc::not_found when its init is gone.
Result<Sandbox> adopt(const wire::KeeperRequest& request, const sys::CgroupTree& tree);

// Sandboxes that nobody claimed: inits of ours that are not in `known`, each with its user id. There may be no groups
// to find them by.
std::vector<Sandbox> stray_inits(const std::set<pid_t>& known);
// Groups of the tree that are not in `known`, each as a sandbox whose init is gone.
std::vector<Sandbox> stray_groups(const sys::CgroupTree& tree, const std::set<std::string>& known);

// The name of a sandbox's group as it goes over the wire.
wire::GroupName to_group_name(std::string_view text);

}  // namespace cove::keeper
