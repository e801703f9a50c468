#include "host/host_root.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string_view>

#include "base/id.hpp"
#include "base/io.hpp"
#include "host/keeper_record.hpp"
#include "host/root_skeleton.hpp"
#include "host/state_dir.hpp"

namespace cove::host {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxAttempts = 20;  // to hold a root before somebody else sweeps it

class Fingerprint {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  void add_file(const std::string& path) {
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) return;
    add(fmt::format("{}:{}:{}:{}.{};", path, st.st_ino, st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec));
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

// Package managers touch their database with every change, so nested configuration files need no walk of their own.
std::string fingerprint() {
  Fingerprint print;
  print.add_file(fs::read_symlink("/proc/self/exe"));  // carries cove-init and the tools
  for (const auto* top : kTopLevel) print.add_file(std::string("/") + top);
  for (const auto& path : listed_of_etc()) print.add_file("/etc/" + path);
  for (const char* database : {"/var/lib/dpkg/status", "/var/lib/rpm", "/lib/apk/db/installed"})
    print.add_file(database);
  return print.text();
}

// Removes roots of earlier builds and of earlier states of the host, unless a keeper still uses one.
void sweep_old_roots(const fs::path& roots, const fs::path& kept) {
  std::error_code ec;
  // Sandboxes that outlive their keeper may stand on a root that nobody locks at this moment.
  if (read_record(roots.parent_path())) return;
  for (const auto& entry : fs::directory_iterator(roots, ec)) {
    const auto name = entry.path().filename().string();
    if (entry.path() == kept || !(name.starts_with("host-") || name.starts_with(".building-"))) continue;
    const UniqueFd lock(::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), ec);
  }
}

Result<> make_directories(const fs::path& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) return fail_errno(ec.value(), "make directory {}", path.string());
  return {};
}

// Nobody else may write there: its content becomes the root of sandboxes.
Result<> make_own_directory(const fs::path& path) {
  COVE_CHECK(make_directories(path));
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return fail_errno(errno, "stat {}", path.string());
  if (st.st_uid != ::geteuid() || (st.st_mode & 0022) != 0) {
    return fail(Errc::denied, fmt::format("{} belongs to or can be written by another user; give another --state-dir",
                                          path.string()));
  }
  return {};
}

// A directory with a lock that keeps it from being swept; none when it was swept before we had the lock.
Result<UniqueFd> hold(const fs::path& directory, int operation) {
  UniqueFd held(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!held) return errno == ENOENT ? Result<UniqueFd>(UniqueFd()) : fail_errno(errno, "open {}", directory.string());
  if (::flock(held.get(), operation) != 0) return fail_errno(errno, "lock {}", directory.string());
  struct stat ours{};
  struct stat there{};
  const bool same = ::fstat(held.get(), &ours) == 0 && ::stat(directory.c_str(), &there) == 0 &&
                    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  return same ? std::move(held) : UniqueFd();
}

// Built aside and moved into place whole: another keeper sees it complete or not at all. Builds nothing when the
// directory was swept before it was locked.
Result<> build_root(const fs::path& roots, const fs::path& ready) {
  const fs::path aside = roots / (".building-" + std::string(SandboxId::random().view()));
  COVE_CHECK(make_directories(aside));
  COVE_TRY(const auto building, hold(aside, LOCK_EX));  // what a builder that was killed left is not held, and is swept
  if (!building) return {};
  auto built = make_lower(aside, "/", EtcChoice::listed);
  if (built) built = add_programs(aside);
  if (built && ::rename(aside.c_str(), ready.c_str()) != 0 && errno != EEXIST && errno != ENOTEMPTY)
    built = fail_errno(errno, "move {} into place", ready.string());
  std::error_code ec;
  fs::remove_all(aside, ec);
  sweep_old_roots(roots, ready);
  if (!built)
    return fail(built.error().code,
                fmt::format("build the host root in {}: {}", roots.parent_path().string(), built.error().message));
  return {};
}

}  // namespace

Result<TemplateSource> prepare_templates(const std::string& state_dir) {
  TemplateSource templates{.path = templates_directory(state_dir), .mount = {}};
  COVE_CHECK(make_own_directory(templates.path));
  return templates;
}

Result<RootSource> prepare_host_root(const std::string& state_dir) {
  const fs::path roots = fs::path(state_dir) / "roots";
  const fs::path ready = roots / ("host-" + fingerprint());
  COVE_CHECK(make_own_directory(roots));
  RootSource root;
  root.lower_path = ready;
  // Another build of cove has another root here, and sweeps those that nobody holds.
  for (int attempt = 0; !root.lower_lock; ++attempt) {
    if (attempt == kMaxAttempts)
      return fail(Errc::unavailable, fmt::format("other builds of cove keep removing the host root in {}; give another "
                                                 "--state-dir",
                                                 state_dir));
    if (::access(ready.c_str(), X_OK) != 0) COVE_CHECK(build_root(roots, ready));
    COVE_TRY(root.lower_lock, hold(ready, LOCK_SH));
  }
  root.trees.push_back({.host_path = "/usr", .target = "usr"});
  for (const auto* top : kTopLevel) {
    std::error_code ec;
    const fs::path host = fs::path("/") / top;
    if (!fs::is_symlink(host, ec) && fs::is_directory(host, ec))
      root.trees.push_back({.host_path = host, .target = top});
  }
  return root;
}

}  // namespace cove::host
