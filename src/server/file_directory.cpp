#include "server/file_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/io.hpp"

namespace cove::server {
namespace {

constexpr std::chrono::seconds kPatience{5};  // for a server before us to be gone

Result<> lock(int directory, const std::string& path) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (::flock(directory, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno(errno, "lock {}", path);
    if (std::chrono::steady_clock::now() > until)
      return fail(Errc::exists, fmt::format("another `cove serve` uses {}: give another files.directory", path));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

bool empty(int directory) {
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy),
                                                    [](DIR* dir) { return ::closedir(dir); });
  while (const auto* entry = entries ? ::readdir(entries.get()) : nullptr) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != ".." && name != "lost+found") return false;
  }
  return entries != nullptr;
}

}  // namespace

Result<UniqueFd> open_file_directory(const std::string& path, uid_t owner) {
  if (::geteuid() != 0) owner = ::geteuid();
  std::error_code ec;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ec);
  const bool made = ::mkdir(path.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return fail_errno(errno, "make {}", path);
  COVE_TRY(auto directory, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat st{};
  if (::fstat(directory.get(), &st) != 0) return fail_errno(errno, "stat {}", path);
  // It will be given away and closed to others: nobody may mean /tmp, or a home.
  if ((st.st_mode & (S_IWOTH | S_ISVTX)) != 0 || (st.st_uid != owner && !made && !empty(directory.get()))) {
    return fail(Errc::denied, fmt::format("{} has other contents: give files.directory an empty directory", path));
  }
  COVE_CHECK(lock(directory.get(), path));
  if (::fchown(directory.get(), owner, ::geteuid() == 0 ? static_cast<gid_t>(owner) : static_cast<gid_t>(-1)) != 0)
    return fail_errno(errno, "give away {}", path);
  if (::fchmod(directory.get(), 0700) != 0) return fail_errno(errno, "close {} to others", path);
  return directory;
}

}  // namespace cove::server
