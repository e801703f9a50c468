#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "doors/mcp/sessions.hpp"

namespace cove::doors::mcp {

struct WorkspaceEntry {
  std::string path;  // in the workspace
  std::string type;  // file, directory, symlink, other
  std::uint64_t size = 0;
  std::string modified;  // 2026-03-04T10:15:00.123Z
  std::string target;    // of a symlink
};

struct WorkspaceListing {
  std::vector<WorkspaceEntry> entries;
  bool cut = false;  // there are more
};

struct WorkspacePiece {
  std::string bytes;
  std::uint64_t size = 0;  // of the whole file
};

enum class WriteMode : std::uint8_t { replace, append };
enum class Depth : std::uint8_t { one, all };

// The files of a session, by paths of path_argument(). The work is done inside the sandbox, by our helper there; what
// leads out of /workspace, through a link too, is Errc::denied with EXDEV. What it tells is the sandbox's word.
class Workspace {
 public:
  // Both are borrowed.
  Workspace(const Session& session, const cove::mcp::Call& call);

  // Makes directories on the way.
  Task<Result<WorkspaceEntry>> write(std::string path, std::string content, WriteMode mode);
  Task<Result<WorkspacePiece>> read(std::string path, std::uint64_t offset, std::uint64_t most);
  // Calls `take` with one piece after the other until it says that it has enough. The size of the file.
  Task<Result<std::uint64_t>> read_through(std::string path, std::function<bool(std::string_view)> take);
  // Of "" the workspace itself.
  Task<Result<WorkspaceListing>> list(std::string path, Depth depth);
  // With Depth::all a directory and what is in it.
  Task<Result<>> remove(std::string path, Depth depth);

 private:
  Task<Result<std::string>> run(std::vector<std::string> arguments, std::string input);
  [[nodiscard]] std::function<bool()> abandoned() const;

  std::shared_ptr<sandbox::Sandbox> sandbox_;
  const cove::mcp::Call& call_;
};

// What went wrong with a file, and what to do about it.
std::string file_trouble(const Error& error);

}  // namespace cove::doors::mcp
