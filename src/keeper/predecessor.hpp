#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/unique_fd.hpp"
#include "keeper/record.hpp"

namespace cove::keeper {

// The user namespace of the keeper that wrote `record`, as long as one of its sandboxes lives in it; empty otherwise.
UniqueFd find_user_namespace(const Record& record);

// Whether `pid` is the init of a sandbox made in our own user namespace: all that a keeper has power over.
bool is_our_init(pid_t pid);
// All of them.
std::vector<pid_t> our_inits();
// Whose it is, as our user namespace counts; nullopt when it is gone.
std::optional<std::uint32_t> user_of(pid_t pid);

}  // namespace cove::keeper
