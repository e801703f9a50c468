#include "doctor/host.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>

#include "base/io.hpp"
#include "sys/landlock.hpp"

namespace cove::doctor {
namespace {

namespace fs = std::filesystem;

struct Family {
  const char* name;
  int family;
  int type;
  int protocol;
};
constexpr auto kFamilies = std::to_array<Family>({
    {"AF_VSOCK", AF_VSOCK, SOCK_STREAM, 0},
    {"AF_ALG", AF_ALG, SOCK_SEQPACKET, 0},
    {"AF_RXRPC", AF_RXRPC, SOCK_DGRAM, PF_INET},
});

std::vector<std::string> open_families() {
  std::vector<std::string> open;
  for (const auto& family : kFamilies) {
    const UniqueFd fd(::socket(family.family, family.type | SOCK_CLOEXEC, family.protocol));
    if (fd) open.emplace_back(family.name);
  }
  return open;
}

// The state directory may still have to be made: then what counts is where.
Host::Storage storage_of(const std::string& state_dir) {
  std::error_code ec;
  fs::path path = fs::absolute(state_dir, ec);
  while (!fs::exists(path, ec) && path.has_relative_path()) path = path.parent_path();
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) return {.path = state_dir};
  return {
      .path = state_dir,
      .free_bytes = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize,
      .free_inodes = info.f_favail,
      .counts_inodes = info.f_files > 0,
  };
}

}  // namespace

Result<std::string> Host::read(const std::string& path) const {
  COVE_TRY(auto text, read_file_at(AT_FDCWD, root + "/" + path, std::size_t{1} << 20));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

bool Host::has(const std::string& path) const {
  return ::access((root + "/" + path).c_str(), F_OK) == 0;
}

bool Host::can_run(const std::string& path) const {
  return ::access((root + "/" + path).c_str(), X_OK) == 0;
}

std::string Host::release() const {
  return read("proc/sys/kernel/osrelease").value_or("unknown");
}

Host::Version Host::kernel() const {
  const auto text = release();
  Version version{0, 0};
  const auto* end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.first);
  if (major.ec != std::errc{} || major.ptr == end || *major.ptr != '.') return {0, 0};
  std::from_chars(major.ptr + 1, end, version.second);
  return version;
}

Host this_host(const std::string& state_dir) {
  Host host;
  host.uid = ::geteuid();
  if (const auto* user = ::getpwuid(host.uid); user != nullptr) host.user_name = user->pw_name;
  host.landlock_abi = sys::landlock_abi();
  host.open_families = open_families();
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  host.descriptors = {.soft = descriptors.rlim_cur, .hard = descriptors.rlim_max};
  host.state = storage_of(state_dir);
  return host;
}

}  // namespace cove::doctor
