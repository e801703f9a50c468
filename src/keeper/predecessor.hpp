#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/unique_fd.hpp"
#include "host/keeper_record.hpp"

namespace cove::keeper {

// The user namespace of the keeper that wrote `record`, as long as one of its sandboxes lives in it; empty otherwise.
// The inode in the record is only a hint, since the kernel reuses numbers. The kernel confirms that the namespace is
// ours: we own it, it maps the recorded ids, and the sandbox is in a group of the recorded tree.
UniqueFd find_user_namespace(const host::KeeperRecord& record);
// Ends every sandbox made in this user namespace, and waits a moment for that.
void end_inits(int user_namespace);
// Ends a keeper that stayed behind in its user namespace, with its zygotes, and waits until they are gone.
Result<> end_members(int user_namespace);

// Whether `pid` is the init of a sandbox made in our own user namespace: all that a keeper has power over.
bool is_our_init(pid_t pid);
// All of them.
std::vector<pid_t> our_inits();
// Its user id, in our user namespace; nullopt when it is gone.
std::optional<std::uint32_t> user_of(pid_t pid);

}  // namespace cove::keeper
