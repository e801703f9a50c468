#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>

namespace cove::sys {

// The program made from profiles/default.seccomp when Cove was built. Lives as long as the process.
std::span<const sock_filter> default_seccomp() noexcept;
// Names that program: equal for equal programs. For the posture check and `doctor`; it is no signature.
std::uint64_t default_seccomp_hash() noexcept;

// Puts every thread of this process, and all it will ever start, under `filter` for good. Needs no_new_privs. False
// leaves nothing installed and the reason in errno. Usable between fork and exec.
bool install_seccomp(std::span<const sock_filter> filter) noexcept;

}  // namespace cove::sys
