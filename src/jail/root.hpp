#pragma once

#include "jail/plan.hpp"

namespace cove::jail {

// What a sandbox's processes see as their root, built step by step in a new mount namespace of the keeper's own root.
// For the far side of a fork: no allocation; false with errno set. Each step goes on where the one before left off.

bool make_storage(const Plan& plan) noexcept;
bool make_root(const Plan& plan) noexcept;
bool make_trees(const Plan& plan) noexcept;
bool make_proc() noexcept;
bool make_devices(const Plan& plan) noexcept;
bool make_terminals() noexcept;

}  // namespace cove::jail
