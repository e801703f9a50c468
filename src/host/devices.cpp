#include "host/devices.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/io.hpp"
#include "sys/mount.hpp"

namespace cove::host {
namespace {

constexpr auto kMinors = std::to_array<unsigned>({3, 5, 7, 8, 9});  // of kDeviceNodes; the major is 1 (devices.txt)

struct DeviceLink {
  const char* name;
  const char* target;
};
constexpr auto kDeviceLinks = std::to_array<DeviceLink>({{"fd", "/proc/self/fd"},
                                                         {"stdin", "/proc/self/fd/0"},
                                                         {"stdout", "/proc/self/fd/1"},
                                                         {"stderr", "/proc/self/fd/2"},
                                                         {"ptmx", "pts/ptmx"}});

Result<> make_file(int dir, const char* name) {
  COVE_TRY(const auto file, open_at(dir, name, O_CREAT | O_EXCL | O_WRONLY, 0444));
  return {};
}

// Tells whether we may: a container's root often may not, and a user namespace's never.
bool make_nodes(int dir) {
  for (std::size_t i = 0; i < kMinors.size(); ++i) {
    if (::mknodat(dir, kDeviceNodes[i], S_IFCHR | 0666, makedev(1, kMinors[i])) != 0) return false;
    if (::fchmodat(dir, kDeviceNodes[i], 0666, 0) != 0) return false;
    // A node that cannot be opened (a filesystem without devices) is of no use.
    const UniqueFd opened(::openat(dir, kDeviceNodes[i], O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (!opened && errno != ENOSPC) return false;
  }
  return true;
}

Result<> make_rest(int dir) {
  for (const char* directory : {"pts", "shm"}) {
    if (::mkdirat(dir, directory, 0755) != 0) return fail_errno(errno, "make /dev/{}", directory);
  }
  for (const auto& link : kDeviceLinks) {
    if (::symlinkat(link.target, dir, link.name) != 0) return fail_errno(errno, "make /dev/{}", link.name);
  }
  return make_file(dir, "tty");
}

}  // namespace

Result<Devices> make_devices(std::uint32_t sets) {
  Devices devices;
  const sys::MountOption options[] = {{"size", "65536"}, {"nr_inodes", "131072"}, {"mode", "0755"}};
  devices.mount.reset(sys::make_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  if (!devices.mount) return fail_errno(errno, "make a filesystem for devices");
  for (std::uint32_t set = 0; set < sets; ++set) {
    const auto name = std::to_string(set);
    if (::mkdirat(devices.mount.get(), name.c_str(), 0755) != 0)
      return fail_errno(errno, "make device directory {}", name);
    COVE_TRY(const auto dir, open_at(devices.mount.get(), name, O_RDONLY | O_DIRECTORY));
    COVE_CHECK(make_rest(dir.get()));
    devices.nodes_inside = ::geteuid() == 0 && make_nodes(dir.get());
    if (devices.nodes_inside) continue;
    for (const char* node : kDeviceNodes) {
      ::unlinkat(dir.get(), node, 0);
      COVE_CHECK(make_file(dir.get(), node));
    }
    devices.sets = 1;
    return devices;
  }
  devices.sets = sets;
  return devices;
}

}  // namespace cove::host
