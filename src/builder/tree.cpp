#include "builder/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/io.hpp"

namespace cove::builder {
namespace {

constexpr int kAttempts = 50;
constexpr int kDeepest = 200;  // packages come nowhere near
constexpr const char* kCapability = "security.capability";

using Visit = std::function<Result<>(const Entry&)>;

Result<> walk_in(UniqueFd directory, const Visit& visit, int depth) {
  if (depth > kDeepest) return fail(Errc::over_limit, "the tree is too deep");
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(directory.get()), [](DIR* d) { return ::closedir(d); });
  if (!entries) return fail_errno(errno, "list a directory");
  [[maybe_unused]] const int owned = directory.release();
  const int parent = ::dirfd(entries.get());
  while (const auto* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status{};
    if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      return fail_errno(errno, "look at {}", name);
    if (S_ISDIR(status.st_mode)) {
      COVE_TRY(auto inner, open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
      COVE_CHECK(walk_in(std::move(inner), visit, depth + 1));
    }
    COVE_CHECK(visit({.parent = parent, .name = name.c_str(), .status = status}));
  }
  return {};
}

Result<> disarm_one(const Entry& entry) {
  const auto kind = entry.status.st_mode & S_IFMT;
  if (kind == S_IFLNK) return {};
  if (kind != S_IFREG && kind != S_IFDIR) {
    if (::unlinkat(entry.parent, entry.name, 0) != 0) return fail_errno(errno, "remove {}", entry.name);
    return {};
  }
  // A capability is bound to the user namespace that it was set in, which is gone; it goes all the same.
  if (kind == S_IFREG) {
    COVE_TRY(const auto file, open_at(entry.parent, entry.name, O_RDONLY | O_NOFOLLOW));
    if (::fgetxattr(file.get(), kCapability, nullptr, 0) >= 0 && ::fremovexattr(file.get(), kCapability) != 0)
      return fail_errno(errno, "take the capabilities of {}", entry.name);
  }
  const auto bits = static_cast<mode_t>(S_ISUID | S_ISGID);
  if ((entry.status.st_mode & bits) != 0 &&
      ::fchmodat(entry.parent, entry.name, entry.status.st_mode & 07777 & ~bits, 0) != 0)
    return fail_errno(errno, "chmod {}", entry.name);
  return {};
}

}  // namespace

Result<> walk(const std::string& directory, const Visit& visit) {
  COVE_TRY(auto fd, open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return walk_in(std::move(fd), visit, 0);
}

Result<std::uint64_t> disarm(const std::string& directory) {
  std::uint64_t bytes = 0;
  COVE_CHECK(walk(directory, [&bytes](const Entry& entry) {
    bytes += static_cast<std::uint64_t>(entry.status.st_blocks) * 512;
    return disarm_one(entry);
  }));
  return bytes;
}

Result<> give_to(const std::string& directory, uid_t uid, gid_t gid) {
  COVE_CHECK(walk(directory, [uid, gid](const Entry& entry) -> Result<> {
    if (::fchownat(entry.parent, entry.name, uid, gid, AT_SYMLINK_NOFOLLOW) != 0)
      return fail_errno(errno, "give away {}", entry.name);
    return {};
  }));
  if (::lchown(directory.c_str(), uid, gid) != 0) return fail_errno(errno, "give away {}", directory);
  return {};
}

Result<> remove_tree(const std::string& path) {
  std::error_code failed;
  // Processes of a build that was killed may be at it for another moment.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::filesystem::remove_all(path, failed);
    if (failed != std::errc::directory_not_empty && failed != std::errc::no_such_file_or_directory) break;
  }
  if (failed) return fail_errno(failed.value(), "remove {}", path);
  return {};
}

std::uint64_t disk_usage(const std::string& directory) {
  std::string path = directory;
  char* const roots[] = {path.data(), nullptr};
  const std::unique_ptr<FTS, int (*)(FTS*)> tree(::fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, nullptr),
                                                 &::fts_close);
  std::uint64_t bytes = 0;
  while (const auto* entry = tree ? ::fts_read(tree.get()) : nullptr) {
    const bool known = entry->fts_info == FTS_D || entry->fts_info == FTS_F || entry->fts_info == FTS_SL ||
                       entry->fts_info == FTS_DEFAULT;
    if (known) bytes += static_cast<std::uint64_t>(entry->fts_statp->st_blocks) * 512;
  }
  return bytes;
}

}  // namespace cove::builder
