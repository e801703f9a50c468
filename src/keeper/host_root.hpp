#pragma once

#include <string>

#include "base/result.hpp"
#include "keeper/room.hpp"

namespace cove::keeper {

// The `host` root: the host's own /usr, read-only, below a small directory with a generated /etc. It is kept in the
// state directory under a name made from what it was built from, so it is built once and again when the host has
// changed.
Result<RootSource> prepare_host_root(const std::string& state_dir);

// Where state lives unless told otherwise: /var/lib/cove for root, else $XDG_STATE_HOME/cove or ~/.local/state/cove.
// Empty for a user who has no home; whoever needs it then says that --state-dir must be given.
std::string default_state_dir();

// Where the roots of templates are, each in a directory that is named by its number.
std::string templates_directory(const std::string& state_dir);
Result<TemplateSource> prepare_templates(const std::string& state_dir);

}  // namespace cove::keeper
