#include "files/content.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/io.hpp"
#include "base/random_name.hpp"
#include "files/location.hpp"
#include "files/names.hpp"
#include "files/stop.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kChunk = 128U << 10;

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISLNK(mode)) return "is a link";
  return "is not a regular file";
}

Result<> copy(int from, int to, const std::string& path, std::uint64_t length) {
  std::vector<char> chunk(kChunk);
  while (length > 0) {
    const auto n = ::read(from, chunk.data(), std::min<std::uint64_t>(chunk.size(), length));
    if (n <= 0 && stop_requested != 0) return fail(Errc::unavailable, "asked to stop");
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read {}", shown(path));
    if (n == 0) break;
    if (const auto written = write_all(to, {chunk.data(), static_cast<std::size_t>(n)}); !written)
      return fail_errno(written.error().sys_errno, "write {}", shown(path));
    length -= static_cast<std::uint64_t>(n);
  }
  return {};
}

constexpr auto kEverything = std::numeric_limits<std::uint64_t>::max();

// A file being written beside the one it is to replace; removed unless it did.
class Draft {
 public:
  explicit Draft(int dir_fd) : dir_fd_(dir_fd), name_(random_name(".cove-write-")) {}
  ~Draft() {
    if (fd_) ::unlinkat(dir_fd_, name_.c_str(), 0);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  Result<int> open() {
    COVE_TRY(fd_, open_beneath(dir_fd_, name_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    return fd_.get();
  }
  Result<> become(const std::string& name, const std::string& path) {
    if (::renameat(dir_fd_, name_.c_str(), dir_fd_, name.c_str()) != 0)
      return fail_errno(errno, "write {}", shown(path));
    fd_.reset();
    return {};
  }

 private:
  int dir_fd_;
  std::string name_;
  UniqueFd fd_;
};

}  // namespace

Result<> read_content(const std::string& path, ReadRange range, int out_fd) {
  // O_NONBLOCK: a FIFO is told from a file without waiting for its writer.
  COVE_TRY(const auto fd, open_path(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  COVE_TRY(const auto st, stat_fd(fd.get()));
  if (!S_ISREG(st.st_mode)) return fail(Errc::invalid, fmt::format("{} {}", shown(path), kind_of(st.st_mode)));
  if (pseudo_filesystem(fd.get())) return fail(Errc::invalid, fmt::format("{} is not a regular file", shown(path)));
  const auto size = static_cast<std::uint64_t>(st.st_size);
  COVE_CHECK(write_all(
      out_fd, fmt::format("{{\"size\":{},\"mtime_ns\":{},\"mode\":\"{}\",\"inode\":{}}}\n", size,
                          st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec, format_mode(st.st_mode), st.st_ino)));
  if (range.offset >= size) return {};
  if (::lseek(fd.get(), static_cast<off_t>(range.offset), SEEK_SET) < 0)
    return fail_errno(errno, "seek {}", shown(path));
  return copy(fd.get(), out_fd, path, std::min(range.length, size - range.offset));
}

Result<Entry> write_content(const std::string& path, std::uint32_t mode, int in_fd) {
  COVE_TRY(const auto location, locate(path, Parents::make));
  if (const auto there = stat_at(location.dir.get(), location.name); there && S_ISDIR(there->st_mode))
    return fail(Errc::invalid, fmt::format("{} is a directory", shown(path)));
  Draft draft(location.dir.get());
  auto opened = draft.open();
  if (!opened) return fail_errno(opened.error().sys_errno, "write {}", shown(path));
  COVE_CHECK(copy(in_fd, *opened, path, kEverything));
  if (::fchmod(*opened, mode & 0777) != 0) return fail_errno(errno, "set the mode of {}", shown(path));
  COVE_TRY(const auto st, stat_fd(*opened));
  COVE_CHECK(draft.become(location.name, path));
  return make_entry(path, location.dir.get(), location.name, st);
}

Result<Entry> append_content(const std::string& path, std::uint32_t mode, int in_fd) {
  COVE_TRY(const auto location, locate(path, Parents::make));
  const int fd_or_error =
      ::openat(location.dir.get(), location.name.c_str(),
               O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode & 0777);
  const UniqueFd fd(fd_or_error);
  if (!fd && errno == ELOOP) return fail(Errc::invalid, fmt::format("{} is a link", shown(path)));
  if (!fd) return fail_errno(errno, "write {}", shown(path));
  COVE_TRY(const auto before, stat_fd(fd.get()));
  if (!S_ISREG(before.st_mode)) return fail(Errc::invalid, fmt::format("{} {}", shown(path), kind_of(before.st_mode)));
  COVE_CHECK(copy(in_fd, fd.get(), path, kEverything));
  COVE_TRY(const auto st, stat_fd(fd.get()));
  return make_entry(path, location.dir.get(), location.name, st);
}

}  // namespace cove::files
