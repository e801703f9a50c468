#pragma once

#include <string>

namespace cove::host {

// Where state lives without --state-dir: $COVE_STATE_DIR, else /var/lib/cove for root, else $XDG_STATE_HOME/cove or
// ~/.local/state/cove. Empty for a user without a home; the caller then asks for --state-dir.
std::string default_state_dir();

// The directory of templates' roots; each is a subdirectory named by its number.
std::string templates_directory(const std::string& state_dir);

}  // namespace cove::host
