#include "sys/seccomp.hpp"

#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cove::sys {
namespace default_profile {
#include "profiles/default_seccomp.inc"
}  // namespace default_profile

std::span<const sock_filter> default_seccomp() noexcept {
  return default_profile::kProgram;
}

std::uint64_t default_seccomp_hash() noexcept {
  return default_profile::kHash;
}

bool install_seccomp(std::span<const sock_filter> filter) noexcept {
  if (filter.empty() || filter.size() > BPF_MAXINSNS) {
    errno = EINVAL;
    return false;
  }
  // The kernel only reads the program; its struct has no const.
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()),
                           .filter = const_cast<sock_filter*>(filter.data())};
  const auto answer = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  // With TSYNC a positive answer is the thread that could not follow, and nobody is filtered (seccomp(2)).
  if (answer > 0) errno = EBUSY;
  return answer == 0;
}

}  // namespace cove::sys
