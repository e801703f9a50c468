#pragma once

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "host/keeper_record.hpp"

namespace cove::keeper {

// Servers whose sandboxes may outlive them are listed for the host (as root) or the user, outside of their state
// directories: sandboxes of a server that was killed, and whose state directory is gone, are then found by the next
// cove that starts, and ended. Without a place to list them (no XDG_RUNTIME_DIR) each sandbox still ends by itself when
// its lease is over.

// Lists the server of this state directory with what finds its sandboxes. The entry is locked for as long as the
// descriptor is open; an empty one when there is no place for a list.
Result<UniqueFd> list_server(const std::string& state_dir, const host::KeeperRecord& record);
void unlist_server(const std::string& state_dir);

// Ends what listed servers left that live no more and whose state directory is gone.
void sweep_abandoned();

// Removes the record of a state directory, and its entry in the list, when no sandbox lives that it would find.
void forget_if_nobody_lives(const std::string& state_dir);

}  // namespace cove::keeper
