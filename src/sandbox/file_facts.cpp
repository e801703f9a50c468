#include "sandbox/file_facts.hpp"

#include <time.h>

namespace cove::sandbox {
namespace {

constexpr std::string_view kWorkspace = "/workspace";

}  // namespace

std::string etag_of(const FileFacts& facts) {
  return fmt::format("\"{:x}-{:x}-{:x}\"", facts.inode, facts.size, facts.mtime_ns);
}

std::int64_t files_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::string workspace_path(std::string_view path) {
  return path.empty() ? std::string(kWorkspace) : fmt::format("{}/{}", kWorkspace, path);
}

Result<std::string> workspace_relative(std::string_view path) {
  const bool inside = path.starts_with(kWorkspace);
  if (inside) path.remove_prefix(kWorkspace.size());
  if (!inside || (!path.empty() && !path.starts_with('/')))
    return fail(Errc::io, "the sandbox's file helper broke the protocol");
  return std::string(path.substr(path.empty() ? 0 : 1));
}

}  // namespace cove::sandbox
