#pragma once

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "host/keeper_record.hpp"

namespace cove::keeper {

// Servers whose sandboxes may outlive them are listed outside of their state directories, once for the host (as root)
// or for each user. When a server was killed and its state directory is gone, the next cove that starts finds its
// sandboxes by this list and ends them. Without a directory for the list (no XDG_RUNTIME_DIR) each sandbox still ends
// by itself when its lease is over.

// Lists the server of this state directory with the record that finds its sandboxes. The entry is locked while the
// descriptor is open; an empty descriptor when there is no directory for the list.
Result<UniqueFd> list_server(const std::string& state_dir, const host::KeeperRecord& record);
void unlist_server(const std::string& state_dir);

// Ends the sandboxes of listed servers that have died and whose state directory is gone.
void sweep_abandoned();

// Removes the record of a state directory, and its entry in the list, when no sandbox lives that it would find.
void forget_if_nobody_lives(const std::string& state_dir);

}  // namespace cove::keeper
