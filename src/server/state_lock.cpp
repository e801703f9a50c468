#include "server/state_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/io.hpp"

namespace cove::server {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kWait{5};

}  // namespace

Result<> make_state_directory(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (::mkdir(path.substr(0, slash).c_str(), 0755) != 0 && errno != EEXIST)
      return fail_errno(errno, "make {}", path.substr(0, slash));
  }
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return fail_errno(errno, "make {}", path);
  return {};
}

Result<UniqueFd> lock_state(const std::string& state_dir, const char* name) {
  COVE_TRY(auto fd, open_at(AT_FDCWD, fmt::format("{}/{}", state_dir, name), O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  const auto until = Clock::now() + kWait;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno(errno, "lock {}", state_dir);
    if (Clock::now() > until)
      return fail(Errc::exists,
                  fmt::format("another `cove serve` uses {}: stop it, or give another --state-dir", state_dir));
    std::this_thread::sleep_for(milliseconds(10));
  }
  return fd;
}

}  // namespace cove::server
