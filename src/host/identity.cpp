#include "host/identity.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>

#include "base/io.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "base/umask.hpp"
#include "host/keeper_record.hpp"

namespace cove::host {
namespace {

// Above what systemd gives to containers and below its foreign range (systemd's UIDS-GIDS): ids that belong to nobody.
constexpr uid_t kFirstRange = 0x70000000;
constexpr std::uint32_t kRangeSize = 65536;
constexpr std::uint32_t kRanges = 4080;

constexpr const char* kRangeDirectory = "/run/cove/uid-ranges";

// One keeper, one range, held by a lock on a file that only root can open. Where sandboxes may outlive their keeper the
// file names its state directory, and what is recorded there counts after the lock has gone.
Result<UniqueFd> hold_range(int directory, std::uint32_t range, const std::string& keeps_for) {
  COVE_TRY(auto file, open_at(directory, std::to_string(range), O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return fail_errno(errno, "lock uid range {}", range);
  COVE_TRY(const auto keeper, read_all(file.get(), 4096));
  if (!keeper.empty() && keeper != keeps_for) {
    const auto record = read_record(keeper);
    if (record && record->range == range)
      return fail(Errc::exists, fmt::format("uid range {} belongs to {}", range, keeper));
  }
  if (keeper != keeps_for) {
    if (::ftruncate(file.get(), 0) != 0) return fail_errno(errno, "empty the file of uid range {}", range);
    if (!keeps_for.empty() && ::pwrite(file.get(), keeps_for.data(), keeps_for.size(), 0) < 0)
      return fail_errno(errno, "write the file of uid range {}", range);
  }
  return file;
}

Result<Identity> identity_for_root(const std::string& keeps_for, std::optional<std::uint32_t> earlier) {
  const UmaskScope umask(022);
  for (const char* directory : {"/run/cove", kRangeDirectory}) {
    if (::mkdir(directory, 0755) != 0 && errno != EEXIST) return fail_errno(errno, "make {}", directory);
  }
  COVE_TRY(const auto directory, open_at(AT_FDCWD, kRangeDirectory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  const auto identity = [](std::uint32_t range, UniqueFd lock) {
    const uid_t first = kFirstRange + range * kRangeSize;
    return Identity{.mode = IdentityMode::root,
                    .first = first,
                    .first_group = first,
                    .count = kRangeSize,
                    .range = range,
                    .lock = std::move(lock)};
  };
  if (earlier) {
    COVE_TRY(auto lock, hold_range(directory.get(), *earlier, keeps_for));
    return identity(*earlier, std::move(lock));
  }
  const auto random = random_number<std::uint32_t>();
  for (std::uint32_t tried = 0; tried < kRanges; ++tried) {
    const std::uint32_t range = (random + tried) % kRanges;
    if (auto lock = hold_range(directory.get(), range, keeps_for)) return identity(range, std::move(*lock));
  }
  return fail(Errc::over_limit, "every range of user ids is in use: stop other cove processes on this host");
}

// "user:first:count" of /etc/subuid or /etc/subgid, by name or number (subuid(5)).
std::optional<std::pair<uid_t, std::uint32_t>> subordinate_range(const char* file) {
  const auto text = read_file_at(AT_FDCWD, file);
  if (!text) return std::nullopt;
  const auto* user = ::getpwuid(::getuid());
  const std::string by_number = std::to_string(::getuid());
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto line = take_until(rest, '\n');

    const auto colon = line.find(':');
    const auto second = line.find(':', colon + 1);
    if (colon == std::string_view::npos || second == std::string_view::npos) continue;
    const auto owner = line.substr(0, colon);
    if (owner != by_number && (user == nullptr || owner != user->pw_name)) continue;
    uid_t first = 0;
    std::uint32_t count = 0;
    std::from_chars(line.data() + colon + 1, line.data() + second, first);
    std::from_chars(line.data() + second + 1, line.data() + line.size(), count);
    if (first > 0 && count > 0) return std::pair{first, count};
  }
  return std::nullopt;
}

Result<> run_helper(const char* program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>(program)};
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  char* const environment[] = {nullptr};
  if (const int failed = ::posix_spawn(&pid, program, nullptr, nullptr, argv.data(), environment); failed != 0)
    return fail_errno(failed, "start {}", program);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0)
    return fail(Errc::denied,
                fmt::format("{} refused the range of /etc/subuid or /etc/subgid: check both files", program));
  return {};
}

}  // namespace

std::string_view name_of(IdentityMode mode) {
  switch (mode) {
    case IdentityMode::root:
      return "root";
    case IdentityMode::subuid:
      return "rootless-subuid";
    case IdentityMode::one_user:
      return "rootless";
  }
  return "rootless";
}

Result<Identity> choose_identity(const std::string& keeps_for, std::optional<std::uint32_t> earlier) {
  if (::geteuid() == 0) return identity_for_root(keeps_for, earlier);
  const auto uids = subordinate_range("/etc/subuid");
  const auto gids = subordinate_range("/etc/subgid");
  if (uids && gids && ::access("/usr/bin/newuidmap", X_OK) == 0 && ::access("/usr/bin/newgidmap", X_OK) == 0) {
    return Identity{.mode = IdentityMode::subuid,
                    .first = uids->first,
                    .first_group = gids->first,
                    .count = std::min(uids->second, gids->second)};
  }
  return Identity{.mode = IdentityMode::one_user, .first = ::getuid(), .first_group = ::getgid(), .count = 1};
}

Result<> write_maps(const Identity& identity, pid_t pid) {
  const auto base = fmt::format("/proc/{}/", pid);
  if (identity.mode == IdentityMode::subuid) {
    const auto arguments = [&](uid_t self, uid_t first) {
      return std::vector<std::string>{
          std::to_string(pid),           "0", std::to_string(self), "1", "1", std::to_string(first),
          std::to_string(identity.count)};
    };
    COVE_CHECK(run_helper("/usr/bin/newuidmap", arguments(::getuid(), identity.first)));
    return run_helper("/usr/bin/newgidmap", arguments(::getgid(), identity.first_group));
  }
  // A user without privilege may map only itself, and only after giving up setgroups(2).
  if (identity.mode == IdentityMode::one_user) COVE_CHECK(write_file_at(AT_FDCWD, base + "setgroups", "deny"));
  COVE_CHECK(write_file_at(AT_FDCWD, base + "gid_map", fmt::format("0 {} {}\n", identity.first_group, identity.count)));
  return write_file_at(AT_FDCWD, base + "uid_map", fmt::format("0 {} {}\n", identity.first, identity.count));
}

}  // namespace cove::host
