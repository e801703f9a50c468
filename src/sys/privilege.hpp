#pragma once

#include <sys/types.h>

#include <span>

namespace cove::sys {

// For code between fork and exec: no allocation; false with errno set.

// Empties all five capability sets for good: bounding, ambient, inheritable, permitted, effective; locks the
// securebits.
bool drop_all_capabilities() noexcept;
// Empties those that are held, which everybody may: with no_new_privileges there is no way back to any.
bool give_up_capabilities() noexcept;
bool set_no_new_privileges() noexcept;
// Keeps these capabilities (CAP_*) and no others, also over an exec by the namespace's root.
bool keep_only(std::span<const int> capabilities) noexcept;
// Real, effective and saved ids. Raw calls: glibc's wrappers signal every thread, and a fork has one.
bool set_ids(uid_t uid, gid_t gid) noexcept;

// While it lives, new user namespaces belong to `uid` and `gid` instead of to us. The keeper makes a sandbox's
// namespaces under the sandbox's own id, so that the kernel's per-owner counts (inotify, namespaces) are per sandbox
// (docs/attacks.md RX-11).
class ActAs {
 public:
  ActAs(uid_t uid, gid_t gid) noexcept;
  ~ActAs();
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;
  explicit operator bool() const noexcept { return good_; }

 private:
  uid_t uid_;
  gid_t gid_;
  bool good_;
};
// Changing the effective id keeps the capabilities from now on. Once, before the first ActAs.
bool keep_capabilities_across_ids() noexcept;

}  // namespace cove::sys
