#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "async/task.hpp"
#include "base/result.hpp"
#include "doors/mcp/sessions.hpp"
#include "sandbox/files.hpp"

namespace cove::doors::mcp {

struct FilePiece {
  std::string bytes;
  std::uint64_t size = 0;  // of the whole file
};

// The files of a session, by paths of path_argument(), which entries have too. A path that leads out of /workspace,
// through a link too, is Errc::denied with EXDEV. Each call takes a minute at most.
class SessionFiles {
 public:
  // Both are borrowed.
  SessionFiles(const Session& session, const cove::mcp::Call& call);

  // Makes directories on the way.
  Task<Result<sandbox::FileEntry>> write(std::string path, std::string content, sandbox::WriteMode mode);
  Task<Result<FilePiece>> read(std::string path, std::uint64_t offset, std::uint64_t most);
  // Calls `take` with one piece after the other until it says that it has enough. The size of the file.
  Task<Result<std::uint64_t>> read_through(std::string path, std::function<bool(std::string_view)> take);
  // Of "" the workspace itself. With Recursive::yes also what is in the directories in it.
  Task<Result<sandbox::Listing>> list(std::string path, sandbox::Recursive recursive);
  // With Recursive::yes a directory and what is in it.
  Task<Result<>> remove(std::string path, sandbox::Recursive recursive);

 private:
  [[nodiscard]] sandbox::SandboxFiles files() const;

  std::shared_ptr<sandbox::Sandbox> sandbox_;
  const cove::mcp::Call& call_;
};

// What went wrong with a file, and what to do about it.
std::string file_error_text(const Error& error);

}  // namespace cove::doors::mcp
