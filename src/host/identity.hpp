#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::host {

// The identities sandboxes can have on this host, for this user.
enum class IdentityMode : std::uint8_t {
  root,      // a range of unprivileged ids that nobody else has; one id a sandbox
  subuid,    // the same out of the user's subordinate range
  one_user,  // every sandbox is the calling user: only namespaces keep them apart
};
std::string_view name_of(IdentityMode mode);

// The ids of the keeper's user namespace: 0 is `first` on the host, and so on for `count` ids. With `subuid` 0 is the
// calling user and the range follows from 1.
struct Identity {
  IdentityMode mode = IdentityMode::one_user;
  uid_t first = 0;
  gid_t first_group = 0;
  std::uint32_t count = 1;
  std::uint32_t range = 0;  // with `root`: its number
  UniqueFd lock;            // reserves the range while it is open
};

// `keeps_for` is the state directory of a keeper whose sandboxes may outlive it, or empty: its range is not given to
// another keeper while the record in that directory names it. `earlier` is the range of the previous keeper.
Result<Identity> choose_identity(const std::string& keeps_for = {}, std::optional<std::uint32_t> earlier = {});

// Writes the maps of `pid`, which waits in a new user namespace. For `subuid` by newuidmap(1) and newgidmap(1).
Result<> write_maps(const Identity& identity, pid_t pid);

}  // namespace cove::host
