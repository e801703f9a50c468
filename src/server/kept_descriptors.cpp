#include "server/kept_descriptors.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cove::server {

bool keep_only(const std::vector<int>& descriptors) {
  if (descriptors.size() > kMaxKept) return false;
  // First out of the way of each other.
  std::vector<int> moved(descriptors.size());
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    moved[i] = descriptors[i] < 0 ? -1 : ::fcntl(descriptors[i], F_DUPFD_CLOEXEC, 3 + static_cast<int>(kMaxKept));
    if (descriptors[i] >= 0 && moved[i] < 0) return false;
  }
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const int target = 3 + static_cast<int>(i);
    if (moved[i] < 0 ? ::close(target) != 0 && errno != EBADF : ::dup3(moved[i], target, O_CLOEXEC) < 0) return false;
  }
  ::syscall(SYS_close_range, 3 + moved.size(), ~0U, 0);
  return true;
}

}  // namespace cove::server
