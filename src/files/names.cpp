#include "files/names.hpp"

#include "base/text.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kShownBytes = 200;

}  // namespace

Result<std::string> member_path(std::string_view name, std::size_t max_depth) {
  if (name.empty()) return fail(Errc::invalid, "a member has an empty name");
  if (name.find('\0') != std::string_view::npos)
    return fail(Errc::invalid, fmt::format("member {} has a NUL in its name", shown(name)));
  if (name.size() > kMaxPathBytes)
    return fail(Errc::invalid, fmt::format("member {} has a path over {} bytes", shown(name), kMaxPathBytes));
  std::string path;
  std::size_t depth = 0;
  for (std::string_view rest = name; !rest.empty();) {
    const auto part = take_until(rest, '/');
    if (part.empty() || part == ".") continue;
    if (part == "..") return fail(Errc::invalid, fmt::format("member {} has '..' in its path", shown(name)));
    if (part.size() > kMaxNameBytes)
      return fail(Errc::invalid, fmt::format("member {} has a name over {} bytes", shown(name), kMaxNameBytes));
    if (++depth > max_depth)
      return fail(Errc::invalid, fmt::format("member {} is more than {} levels deep", shown(name), max_depth));
    if (!path.empty()) path += '/';
    path += part;
  }
  return path;
}

bool link_stays_inside(std::string_view path, std::string_view target) {
  if (target.empty() || target.front() == '/') return false;
  std::size_t depth = 0;
  for (auto rest = parent_name(path); !rest.empty();) {
    if (!take_until(rest, '/').empty()) ++depth;
  }
  for (auto rest = target; !rest.empty();) {
    const auto part = take_until(rest, '/');
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      ++depth;
    } else if (depth-- == 0) {
      return false;
    }
  }
  return true;
}

Result<std::string> absolute_path(std::string_view path) {
  if (path.empty()) return fail(Errc::invalid, "the path is empty");
  if (path.find('\0') != std::string_view::npos)
    return fail(Errc::invalid, fmt::format("path {} has a NUL in it", shown(path)));
  std::string absolute;
  const auto append = [&](std::string_view rest) {
    while (!rest.empty()) {
      const auto part = take_until(rest, '/');
      if (part.empty() || part == ".") continue;
      absolute += '/';
      absolute += part;
    }
  };
  if (path.front() != '/') append(kWorkspace);
  append(path);
  if (absolute.empty()) absolute = "/";
  if (absolute.size() >= kMaxPathBytes)
    return fail(Errc::invalid, fmt::format("path {} is over {} bytes", shown(path), kMaxPathBytes));
  return absolute;
}

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

std::string_view parent_name(std::string_view path) {
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  return path.substr(0, slash == 0 ? 1 : slash);
}

std::string shown(std::string_view name) {
  const bool cut = name.size() > kShownBytes;
  return "'" + replace_invalid_utf8(name.substr(0, kShownBytes)) + (cut ? "…'" : "'");
}

}  // namespace cove::files
