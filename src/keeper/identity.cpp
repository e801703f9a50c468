#include "keeper/identity.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>

#include "base/io.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

namespace cove::keeper {
namespace {

// Above what systemd gives to containers and below its foreign range (systemd's UIDS-GIDS): ids that belong to nobody.
constexpr uid_t kFirstRange = 0x70000000;
constexpr std::uint32_t kRangeSize = 65536;
constexpr std::uint32_t kRanges = 4080;

// One keeper, one range. The name of an abstract socket is free again the moment its holder dies, and leaves no file
// behind.
Result<UniqueFd> hold_range(std::uint32_t range) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto name = fmt::format("cove/uid-range/{}", range);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return fail_errno(errno, "hold uid range {}", range);
  return fd;
}

Result<Identity> identity_for_root() {
  const auto random = random_number<std::uint32_t>();
  for (std::uint32_t tried = 0; tried < kRanges; ++tried) {
    const std::uint32_t range = (random + tried) % kRanges;
    auto lock = hold_range(range);
    if (!lock) continue;
    const uid_t first = kFirstRange + range * kRangeSize;
    return Identity{.mode = IdentityMode::root,
                    .first = first,
                    .first_group = first,
                    .count = kRangeSize,
                    .lock = std::move(*lock)};
  }
  return fail(Errc::over_limit, "every range of user ids is held by another cove on this host");
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
  if (status != 0) return fail(Errc::denied, fmt::format("{} refused the range of /etc/subuid", program));
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

Result<Identity> choose_identity() {
  if (::geteuid() == 0) return identity_for_root();
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

}  // namespace cove::keeper
