#include "server/front_home.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/random.hpp"
#include "base/umask.hpp"
#include "sys/privilege.hpp"

namespace cove::server {
namespace {

// Just below the ranges that sandboxes get, and as they are nobody's (keeper/identity.cpp). One is drawn for each state
// directory; that it is remembered there keeps it the same for good.
constexpr uid_t kFirstOwner = 0x6ff00000;
constexpr uid_t kOwners = 0x100000;  // as many below the first are of egress processes

constexpr const char* kView = "/run/cove/front";
constexpr const char* kKeysRequired = "/keys-required";

bool is_an_owner(uid_t uid) {
  return ::geteuid() == 0 ? uid >= kFirstOwner && uid - kFirstOwner < kOwners : uid == ::geteuid();
}

// The directory may lie where only root can walk to. In a mount namespace of its own the process finds it at a place
// that its new identity can reach.
Result<> show(int directory) {
  const UmaskScope umask(022);
  for (const char* path : {"/run/cove", kView}) {
    if (::mkdir(path, 0755) != 0 && errno != EEXIST) return fail_errno(errno, "make {}", path);
  }
  // Taken along by its descriptor: what lies at its name is not asked again.
  const UniqueFd copy(::open_tree(directory, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));
  if (!copy) return fail_errno(errno, "copy the mount of the front's directory");
  if (::unshare(CLONE_NEWNS) != 0) return fail_errno(errno, "make a mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return fail_errno(errno, "make mounts private");
  if (::move_mount(copy.get(), "", AT_FDCWD, kView, MOVE_MOUNT_F_EMPTY_PATH) != 0)
    return fail_errno(errno, "mount {}", kView);
  return {};
}

}  // namespace

Result<std::optional<FrontHome>> FrontHome::find(const std::string& state_dir) {
  const auto path = state_dir + "/front";
  struct stat st{};
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory && errno == ENOENT) return std::optional<FrontHome>();
  if (!directory && errno == EACCES && ::stat(path.c_str(), &st) == 0)
    return fail(Errc::denied, fmt::format("{}: Permission denied; it belongs to uid {}: use sudo, or give the "
                                          "--state-dir of your own server",
                                          path, st.st_uid));
  if (!directory) return fail_errno(errno, "open {}", path);
  if (::fstat(directory.get(), &st) != 0) return fail_errno(errno, "look at {}", path);
  return std::optional(FrontHome(std::move(directory), path, st.st_uid));
}

Result<FrontHome> FrontHome::make(const std::string& state_dir) {
  COVE_TRY(auto found, find(state_dir));
  if (found) return std::move(*found);
  const auto path = state_dir + "/front";
  // Under another name until it is whole: one that was cut short must not look as if it were root's.
  const auto aside = fmt::format("{}.new-{}", path, ::getpid());
  ::rmdir(aside.c_str());
  if (::mkdir(aside.c_str(), 0700) != 0) return fail_errno(errno, "make {}", aside);
  if (::geteuid() == 0) {
    const uid_t owner = kFirstOwner + random_number<std::uint32_t>() % kOwners;
    if (::lchown(aside.c_str(), owner, owner) != 0) return fail_errno(errno, "give {} to uid {}", aside, owner);
  }
  // Never in the place of another, which rename() would do while that is empty: whoever made it may have opened it.
  if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    const int failed = errno;
    ::rmdir(aside.c_str());
    // Somebody else made it in this moment.
    if (failed != EEXIST && failed != ENOTEMPTY) return fail_errno(failed, "make {}", path);
  }
  COVE_TRY(found, find(state_dir));
  if (!found) return fail(Errc::io, fmt::format("{} was removed while it was being created", path));
  return std::move(*found);
}

Result<FrontHome> FrontHome::own(const std::string& state_dir) {
  COVE_TRY(auto home, make(state_dir));
  struct stat st{};
  if (::fstat(home.directory_.get(), &st) != 0) return fail_errno(errno, "look at {}", home.path_);
  if (is_an_owner(st.st_uid) && (st.st_mode & 0077) == 0) return home;
  return fail(Errc::denied,
              fmt::format("{} belongs to uid {} with mode {:04o}, so it is not from a server of this user: "
                          "move it away, or give another --state-dir",
                          home.path_, st.st_uid, st.st_mode & 07777));
}

uid_t FrontHome::egress_owner() const {
  return owner_ - kOwners;
}

Result<std::string> FrontHome::enter() const {
  const bool root = ::geteuid() == 0;
  if (root) {
    COVE_CHECK(show(directory_.get()));
    if (::setgroups(0, nullptr) != 0 || !sys::set_ids(owner_, owner_))
      return fail_errno(errno, "take the identity of {}", path_);
  }
  if (!sys::give_up_capabilities() || !sys::set_no_new_privileges()) return fail_errno(errno, "give up privileges");
  ::umask(077);
  return root ? kView : path_;
}

Result<int> FrontHome::inside(unsigned patience_seconds,
                              const std::function<int(const std::string& path)>& work) const {
  const auto child = ::fork();
  if (child < 0) return fail_errno(errno, "fork");
  if (child == 0) {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(patience_seconds);
    const auto path = enter();
    ::_exit(path ? work(*path) : 255);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) <= 200) return WEXITSTATUS(status);
  return fail(Errc::unavailable, fmt::format("cannot read {}", path_));
}

bool keys_required(const std::string& state_dir) {
  struct stat st{};
  return ::lstat((state_dir + kKeysRequired).c_str(), &st) == 0;
}

Result<> require_keys(const std::string& state_dir) {
  COVE_TRY(const auto made, open_at(AT_FDCWD, state_dir + kKeysRequired, O_WRONLY | O_CREAT | O_NOFOLLOW, 0644));
  return write_all(made.get(),
                   "This server asks for keys, because it has had one. Without this file it would find that "
                   "out anew from its database.\n");
}

}  // namespace cove::server
