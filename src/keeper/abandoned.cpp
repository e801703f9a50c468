#include "keeper/abandoned.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "base/io.hpp"
#include "base/text.hpp"
#include "base/umask.hpp"
#include "keeper/predecessor.hpp"
#include "sys/cgroup.hpp"

namespace cove::keeper {
namespace {

std::string list_directory() {
  if (::geteuid() == 0) return "/run/cove/servers";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && *runtime == '/' ? std::string(runtime) + "/cove-servers" : "";
}

// Only a directory that nobody else can write to: what is listed decides what is ended.
Result<UniqueFd> open_list() {
  const auto path = list_directory();
  if (path.empty()) return fail(Errc::not_found, "there is no directory for a list of servers");
  const UmaskScope umask(022);
  if (::geteuid() == 0) ::mkdir("/run/cove", 0755);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(errno, "make {}", path);
  COVE_TRY(auto list, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat st{};
  if (::fstat(list.get(), &st) != 0 || st.st_uid != ::geteuid() || (st.st_mode & 0022) != 0)
    return fail(Errc::denied, fmt::format("{} belongs to or can be written by another user", path));
  return list;
}

std::string name_of(const struct stat& st) {
  return fmt::format("{:x}-{:x}", st.st_dev, st.st_ino);
}

struct Entry {
  std::string state_dir;
  std::optional<host::KeeperRecord> record;
};

Entry parse(std::string_view text) {
  const auto path = std::string(take_until(text, '\n'));
  return {.state_dir = path, .record = host::parse_record(text)};
}

// Locked; empty when somebody else holds it, or it has been removed meanwhile.
UniqueFd hold(int list, const std::string& name, int flags) {
  UniqueFd entry(::openat(list, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
  struct stat st{};
  const bool held = entry && ::flock(entry.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(entry.get(), &st) == 0;
  return held && st.st_nlink > 0 ? std::move(entry) : UniqueFd();
}

void end_sandboxes(const host::KeeperRecord& record) {
  const auto space = find_user_namespace(record);
  if (space) {
    end_inits(space.get());
    [[maybe_unused]] const auto ended = end_members(space.get());
  }
  sys::end_group_tree(record.cgroup_name, record.cgroup_bases);
}

std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names;
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy),
                                                    [](DIR* d) { return ::closedir(d); });
  while (const auto* entry = entries ? ::readdir(entries.get()) : nullptr) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

}  // namespace

Result<UniqueFd> list_server(const std::string& state_dir, const host::KeeperRecord& record) {
  const auto list = open_list();
  if (!list) return UniqueFd();
  struct stat st{};
  if (::stat(state_dir.c_str(), &st) != 0) return fail_errno(errno, "look at {}", state_dir);
  auto entry = hold(list->get(), name_of(st), O_CREAT);
  if (!entry)
    return fail(Errc::exists, fmt::format("another process holds the entry of {} in the list of servers", state_dir));
  // The directory of another server had this number, and is gone.
  const auto before = parse(read_all(entry.get(), 65536).value_or(""));
  if (before.record && before.record->user_namespace != record.user_namespace &&
      before.record->cgroup_name != record.cgroup_name)
    end_sandboxes(*before.record);
  if (::ftruncate(entry.get(), 0) != 0 || ::lseek(entry.get(), 0, SEEK_SET) != 0)
    return fail_errno(errno, "empty the entry of {}", state_dir);
  COVE_CHECK(write_all(entry.get(), fmt::format("{}\n{}", state_dir, host::to_text(record))));
  return entry;
}

void unlist_server(const std::string& state_dir) {
  const auto list = open_list();
  struct stat st{};
  if (list && ::stat(state_dir.c_str(), &st) == 0) ::unlinkat(list->get(), name_of(st).c_str(), 0);
}

void sweep_abandoned() {
  if (struct stat st{}; ::stat(list_directory().c_str(), &st) != 0) return;
  const auto list = open_list();
  if (!list) return;
  for (const auto& name : names_in(list->get())) {
    const auto entry = hold(list->get(), name, 0);
    if (!entry) continue;
    const auto found = parse(read_all(entry.get(), 65536).value_or(""));
    struct stat st{};
    if (::stat(found.state_dir.c_str(), &st) == 0 && name_of(st) == name) continue;
    if (found.record) end_sandboxes(*found.record);
    ::unlinkat(list->get(), name.c_str(), 0);
  }
}

void forget_if_nobody_lives(const std::string& state_dir) {
  const auto record = host::read_record(state_dir);
  if (record && find_user_namespace(*record)) return;
  host::remove_record(state_dir);
  unlist_server(state_dir);
}

}  // namespace cove::keeper
