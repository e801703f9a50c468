#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeper/keeper.hpp"

namespace cove::keeper {

// The ids of the keeper's user namespace: 0 is `first` on the host, and so on for `count` ids. With `subuid` 0 is the
// calling user and the range follows from 1.
struct Identity {
  IdentityMode mode = IdentityMode::one_user;
  uid_t first = 0;
  gid_t first_group = 0;
  std::uint32_t count = 1;
  std::uint32_t range = 0;  // of root's
  UniqueFd lock;            // holds that for as long as it is open
};

// `keeps_for` is the state directory of a keeper whose sandboxes may outlive it, or empty: such a range is not given to
// anybody else as long as the record in that directory names it. `earlier` is the range of the keeper before.
Result<Identity> choose_identity(const std::string& keeps_for = {}, std::optional<std::uint32_t> earlier = {});

// Writes the maps of `pid`, which waits in a new user namespace. For `subuid` by newuidmap(1) and newgidmap(1).
Result<> write_maps(const Identity& identity, pid_t pid);

}  // namespace cove::keeper
