#include "sys/landlock.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cove::sys {
namespace {

// Newer than the headers of Debian 12 (landlock(7)).
constexpr std::uint64_t kTruncate = 1ULL << 14;          // ABI 3
constexpr std::uint64_t kIoctlDev = 1ULL << 15;          // ABI 5
constexpr std::uint64_t kScopeAbstractUnix = 1ULL << 0;  // ABI 6
constexpr std::uint64_t kScopeSignal = 1ULL << 1;        // ABI 6

struct RulesetAttr {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;
  std::uint64_t scoped;
};

constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kRun = kRead | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr std::uint64_t kMake =
    LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
    LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr std::uint64_t kUseData = kRun | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | LANDLOCK_ACCESS_FS_REFER |
                                   (kMake & ~(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK));
constexpr std::uint64_t kUseDevice = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

constexpr std::uint64_t handled_by(int abi) {
  std::uint64_t handled = kRun | LANDLOCK_ACCESS_FS_WRITE_FILE | kMake;
  if (abi >= 2) handled |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= 3) handled |= kTruncate;
  if (abi >= 5) handled |= kIoctlDev;
  return handled;
}

constexpr std::uint64_t access_for(PathUse use) {
  switch (use) {
    case PathUse::execute:
      return kRun;
    case PathUse::write:
      return kUseData;
    case PathUse::device:
      return kUseDevice;
    case PathUse::terminal:
      return kUseDevice | kIoctlDev;
  }
  return 0;
}

// Rights that only directories have; the kernel refuses them in a rule for a file.
constexpr std::uint64_t kForFiles =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE | kTruncate | kIoctlDev;

}  // namespace

int landlock_abi() noexcept {
  const auto abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi < 0 ? 0 : static_cast<int>(abi);
}

bool restrict_with_landlock(std::span<const PathRule> rules, int abi, SignalScope signals) noexcept {
  const std::uint64_t handled = handled_by(abi);
  // TCP rules are left out on purpose: the network namespace has loopback alone, and servers on it are ordinary work
  // (docs/decisions/0004-landlock-without-tcp.md).
  RulesetAttr attr{.handled_access_fs = handled,
                   .handled_access_net = 0,
                   .scoped = abi < 6                              ? 0
                             : signals == SignalScope::own_domain ? kScopeAbstractUnix | kScopeSignal
                                                                  : kScopeAbstractUnix};
  const std::size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? 2 * sizeof(std::uint64_t) : sizeof(std::uint64_t);
  const auto ruleset = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attr, size, 0));
  if (ruleset < 0) return false;
  bool good = true;
  for (const auto& rule : rules) {
    const int path = ::open(rule.path, O_PATH | O_CLOEXEC);
    if (path < 0) {
      good = good && errno == ENOENT;
      continue;
    }
    struct stat st{};
    std::uint64_t access = access_for(rule.use) & handled;
    if (::fstat(path, &st) == 0 && !S_ISDIR(st.st_mode)) access &= kForFiles;
    const landlock_path_beneath_attr beneath{.allowed_access = access, .parent_fd = path};
    good = good && ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) == 0;
    ::close(path);
  }
  good = good && ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  const int saved = errno;
  ::close(ruleset);
  errno = saved;
  return good;
}

}  // namespace cove::sys
