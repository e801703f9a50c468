#include "sys/privilege.hpp"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace cove::sys {
namespace {

bool change_effective(uid_t uid, gid_t gid) noexcept {
  constexpr auto kKeep = static_cast<unsigned>(-1);
  return ::syscall(SYS_setresgid, kKeep, gid, kKeep) == 0 && ::syscall(SYS_setresuid, kKeep, uid, kKeep) == 0;
}

}  // namespace

bool drop_all_capabilities() noexcept {
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return false;
  for (int capability = 0; capability < 64; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) break;  // past the last one this kernel knows
    return false;
  }
  constexpr auto kLocked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                           SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                           SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  return ::prctl(PR_SET_SECUREBITS, kLocked, 0, 0, 0) == 0 && give_up_capabilities();
}

bool give_up_capabilities() noexcept {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

bool keep_only(std::span<const int> capabilities) noexcept {
  std::uint64_t kept = 0;
  for (const int capability : capabilities) kept |= std::uint64_t{1} << capability;
  for (int capability = 0; capability < 64; ++capability) {
    if ((kept >> capability & 1) != 0 || ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) break;  // past the last one this kernel knows
    return false;
  }
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  for (int half = 0; half < 2; ++half) {
    data[half].permitted = data[half].effective = static_cast<std::uint32_t>(kept >> (32 * half));
  }
  return ::syscall(SYS_capset, &header, data) == 0;
}

bool set_no_new_privileges() noexcept {
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

bool set_ids(uid_t uid, gid_t gid) noexcept {
  return ::syscall(SYS_setresgid, gid, gid, gid) == 0 && ::syscall(SYS_setresuid, uid, uid, uid) == 0;
}

bool keep_capabilities_across_ids() noexcept {
  return ::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED, 0, 0, 0) == 0;
}

ActAs::ActAs(uid_t uid, gid_t gid) noexcept : uid_(::geteuid()), gid_(::getegid()), good_(change_effective(uid, gid)) {}

ActAs::~ActAs() {
  // Going back is to our own real ids, which is always allowed; a keeper that could not would be of no use.
  if (!change_effective(uid_, gid_)) ::_exit(125);
}

}  // namespace cove::sys
