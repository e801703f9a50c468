#include "keeper/own_root.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/io.hpp"
#include "sys/mount.hpp"

namespace cove::keeper {
namespace {

constexpr std::uint64_t kReadOnly = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr std::uint64_t kDevice = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;

Result<UniqueFd> copy_of(const std::string& path) {
  UniqueFd mount(sys::copy_tree(path.c_str()));
  if (!mount) return fail_errno(errno, "copy the mount of {}", path);
  return mount;
}

// Read-only: a device can still be written, but not its node, which is the host's.
Result<UniqueFd> device_copy_of(const std::string& node) {
  COVE_TRY(auto mount, copy_of("/dev/" + node));
  if (!sys::restrict_tree(mount.get(), kDevice)) return fail_errno(errno, "restrict /dev/{}", node);
  return mount;
}

Result<> make_file(const std::string& path) {
  COVE_TRY(const auto file, open_at(AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY, 0444));
  return {};
}

Result<> make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0) return fail_errno(errno, "make directory {} in the keeper's root", path);
  return {};
}

Result<> place(const UniqueFd& mount, const std::string& target) {
  if (!sys::attach(mount.get(), target.c_str())) return fail_errno(errno, "mount {} in the keeper's root", target);
  return {};
}

template <std::size_t N>
void set_text(char (&field)[N], const std::string& text) {
  std::strncpy(field, text.c_str(), N - 1);
}

Result<> place_devices(const host::Devices& devices, const std::vector<std::pair<std::string, UniqueFd>>& nodes) {
  COVE_CHECK(make_directory(jail::kDevices));
  COVE_CHECK(place(devices.mount, jail::kDevices));
  for (const auto& [node, mount] : nodes) COVE_CHECK(place(mount, fmt::format("{}/0/{}", jail::kDevices, node)));
  // Only the filesystem's own mount.
  struct mount_attr read_only{.attr_set = MOUNT_ATTR_RDONLY};
  if (::mount_setattr(AT_FDCWD, jail::kDevices, 0, &read_only, sizeof read_only) != 0)
    return fail_errno(errno, "make the devices read-only");
  return {};
}

}  // namespace

Result<UniqueFd> read_only_copy_of(const std::string& path) {
  UniqueFd mount(::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!mount) return fail_errno(errno, "copy the mount of {}", path);
  if (!sys::restrict_tree(mount.get(), kReadOnly)) return fail_errno(errno, "make {} read-only", path);
  return mount;
}

Result<jail::Root> template_root(std::uint32_t number, const jail::Root& host) {
  const auto base = fmt::format("{}/{}", jail::kTemplates, number);
  jail::Root root;
  set_text(root.lower, base + "/lower");
  const auto show = [&root](const std::string& source, const char* target) {
    auto& tree = root.trees[root.tree_count++];
    set_text(tree.source, source);
    set_text(tree.target, target);
  };
  show(base + "/usr", "usr");
  show(std::string(host.lower) + "/cove", "cove");
  for (const char* part : {root.lower, root.trees[0].source}) {
    if (::access(part, X_OK) != 0) return fail(Errc::not_found, "there is no such template");
  }
  return root;
}

Result<jail::Root> enter_own_root(host::RootSource& host, host::Devices& devices, host::TemplateSource& templates) {
  if (!sys::make_private()) return fail_errno(errno, "make mounts private");
  // Everything is taken hold of first: that root is then built on top of /proc, the one directory every host has.
  COVE_TRY(const auto proc, copy_of("/proc"));
  if (!devices.mount) {
    COVE_TRY(devices, host::make_devices(1));
  }
  std::vector<std::pair<std::string, UniqueFd>> host_nodes;
  for (const std::string node : host::kDeviceNodes) {
    if (devices.nodes_inside) break;
    COVE_TRY(auto mount, device_copy_of(node));
    host_nodes.emplace_back(node, std::move(mount));
  }
  COVE_TRY(const auto tty, device_copy_of("tty"));
  if (!host.lower_mount) {
    COVE_TRY(host.lower_mount, read_only_copy_of(host.lower_path));
  }
  std::vector<UniqueFd> trees;
  for (const auto& tree : host.trees) {
    COVE_TRY(auto mount, read_only_copy_of(tree.host_path));
    trees.push_back(std::move(mount));
  }
  if (!templates.mount) {
    COVE_TRY(templates.mount, read_only_copy_of(templates.path));
  }

  const sys::MountOption options[] = {{"size", "1048576"}, {"nr_inodes", "1024"}, {"mode", "0755"}};
  const UniqueFd own_root(
      sys::make_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
  if (!own_root) return fail_errno(errno, "make the keeper's root");
  COVE_CHECK(place(own_root, "/proc"));
  if (!sys::change_root("/proc")) return fail_errno(errno, "enter the keeper's root");

  for (const char* directory : {"/proc", jail::kStage, jail::kEmpty, jail::kTemplates, "/r"})
    COVE_CHECK(make_directory(directory));
  COVE_CHECK(place(proc, "/proc"));
  COVE_CHECK(place(templates.mount, jail::kTemplates));
  COVE_CHECK(make_file(jail::kTty));
  COVE_CHECK(place(tty, jail::kTty));
  COVE_CHECK(place_devices(devices, host_nodes));
  const std::string base = "/r/0";
  jail::Root root;
  set_text(root.lower, base + "/root");
  COVE_CHECK(make_directory(base));
  COVE_CHECK(make_directory(root.lower));
  COVE_CHECK(place(host.lower_mount, root.lower));
  if (host.trees.size() > jail::kMaxTrees)
    return fail(Errc::invalid, "the host has too many top-level directories that are no links");
  for (std::size_t i = 0; i < host.trees.size(); ++i) {
    auto& tree = root.trees[root.tree_count++];
    set_text(tree.source, fmt::format("{}/{}", base, i));
    set_text(tree.target, host.trees[i].target);
    COVE_CHECK(make_directory(tree.source));
    COVE_CHECK(place(trees[i], tree.source));
  }
  return root;
}

}  // namespace cove::keeper
