#pragma once

#include "base/result.hpp"
#include "keeper/sandbox_table.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::keeper {

// Gives a sandbox that lives the limits of the request. Errc::conflict, with the numbers, when more than that is in
// use: nothing is changed then. Errc::unsupported where no control group holds the limits.
Result<> change_limits(Sandbox& sandbox, const sys::CgroupTree& tree, const wire::KeeperRequest& request);

}  // namespace cove::keeper
