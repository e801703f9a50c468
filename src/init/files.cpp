#include "init/files.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cove::init {
namespace {

int open_inside(const std::string& path, std::uint64_t flags, std::uint64_t mode) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
}

// mkdir -p of everything before the last slash. Fails later, in the open, with the errno that matters.
void make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), 0755);
  }
}

// A new file, or an old one emptied. O_NOFOLLOW: a link planted in its place is refused. O_NONBLOCK: so is a waiting
// FIFO.
int open_for_writing(const std::string& path, std::uint32_t mode) {
  make_directories(path);
  const int fd = open_inside(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode & 0777);
  if (fd < 0) return -1;
  struct stat st{};
  if (::fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
    errno = EINVAL;
  else if (::ftruncate(fd, 0) == 0 && ::fchmod(fd, mode & 0777) == 0)
    return fd;
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return -1;
}

bool write_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const auto n = ::write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

int report_error(const std::string& path) {
  const std::string sentence = path + ": " + ::strerror(errno) + "\n";
  write_all(2, sentence.data(), sentence.size());
  return 1;
}

}  // namespace

int write_file(const std::string& path, std::uint32_t mode, std::string_view content) {
  const int fd = open_for_writing(path, mode);
  if (fd < 0) return errno;
  const bool written = write_all(fd, content.data(), content.size());
  const int saved = errno;
  ::close(fd);
  return written ? 0 : saved;
}

int make_directory(const std::string& path) {
  make_directories(path + "/");
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return report_error(path);
  if (S_ISDIR(st.st_mode)) return 0;
  errno = ENOTDIR;
  return report_error(path);
}

}  // namespace cove::init
