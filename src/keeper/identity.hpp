#pragma once

#include <sys/types.h>

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
  UniqueFd lock;  // holds a range of root's for as long as it is open
};

Result<Identity> choose_identity();

// Writes the maps of `pid`, which waits in a new user namespace. For `subuid` by newuidmap(1) and newgidmap(1).
Result<> write_maps(const Identity& identity, pid_t pid);

}  // namespace cove::keeper
