#include "doors/mcp/session_files.hpp"

#include <fmt/format.h>

namespace cove::doors::mcp {
namespace {

using sandbox::workspace_path;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFileTime{60};
constexpr std::size_t kMaxEntries = 1000;
constexpr std::size_t kMaxPathBytes = std::size_t{256} << 10;  // in a listing; an answer has each path three times

}  // namespace

SessionFiles::SessionFiles(const Session& session, const cove::mcp::Call& call)
    : sandbox_(session.sandbox), call_(call) {}

sandbox::SandboxFiles SessionFiles::files() const {
  auto abandoned = [&call = call_, until = Clock::now() + kFileTime] {
    return call.cancelled() || Clock::now() > until;
  };
  return {sandbox_, std::move(abandoned), sandbox::Confined::to_workspace, journal::actor_of(principal_of(call_))};
}

Task<Result<sandbox::FileEntry>> SessionFiles::write(std::string path, std::string content, sandbox::WriteMode mode) {
  const auto here = files();
  auto entry = co_await here.write_all(workspace_path(path), std::move(content), {.mode = mode});
  if (!entry) co_return entry;
  auto relative = sandbox::workspace_relative(entry->path);
  if (!relative) co_return tl::unexpected<Error>(relative.error());
  entry->path = std::move(*relative);
  co_return entry;
}

Task<Result<FilePiece>> SessionFiles::read(std::string path, std::uint64_t offset, std::uint64_t most) {
  const auto here = files();
  auto file = co_await here.read(workspace_path(path), sandbox::ByteRange{.offset = offset, .length = most});
  if (!file) co_return tl::unexpected<Error>(file.error());
  auto bytes = co_await file->rest();
  if (!bytes) co_return tl::unexpected<Error>(bytes.error());
  if (bytes->size() > most) co_return fail(Errc::io, "the sandbox's file helper broke the protocol");
  co_return FilePiece{.bytes = std::move(*bytes), .size = file->facts().size};
}

Task<Result<std::uint64_t>> SessionFiles::read_through(std::string path, std::function<bool(std::string_view)> take) {
  const auto here = files();
  auto file = co_await here.read(workspace_path(path));
  if (!file) co_return tl::unexpected<Error>(file.error());
  while (true) {
    const auto bytes = co_await file->next();
    if (bytes.empty()) break;
    if (!take(bytes)) co_return file->facts().size;
  }
  const auto ended = co_await file->rest();
  if (!ended) co_return tl::unexpected<Error>(ended.error());
  co_return file->facts().size;
}

Task<Result<sandbox::Listing>> SessionFiles::list(std::string path, sandbox::Recursive recursive) {
  const auto here = files();
  const auto depth = recursive == sandbox::Recursive::yes ? sandbox::kAnyDepth : 1;
  auto listing = co_await here.list(workspace_path(path), {.depth = depth, .max_entries = kMaxEntries});
  if (!listing) co_return listing;
  auto& entries = listing->entries;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto relative = sandbox::workspace_relative(entries[i].path);
    if (!relative) co_return tl::unexpected<Error>(relative.error());
    bytes += relative->size() + entries[i].target.size();
    if (bytes > kMaxPathBytes || i == kMaxEntries) {
      listing->truncated = true;
      listing->left_out += entries.size() - i;
      entries.resize(i);
      break;
    }
    entries[i].path = std::move(*relative);
  }
  co_return listing;
}

Task<Result<>> SessionFiles::remove(std::string path, sandbox::Recursive recursive) {
  const auto here = files();
  co_return co_await here.remove(workspace_path(path), recursive);
}

std::string file_error_text(const Error& error) {
  if (error.sys_errno == EXDEV)
    return fmt::format("{}. Only paths in the session's /workspace can be used.", error.message);
  switch (error.code) {
    case Errc::not_found:
      return fmt::format("{}. list_files lists the existing files.", error.message);
    case Errc::over_limit:
      return fmt::format("{}. Delete files that are no longer needed.", error.message);
    default:
      return error.message + ".";
  }
}

}  // namespace cove::doors::mcp
