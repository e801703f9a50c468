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

// The files of a session. Paths, also those of entries, are relative to /workspace, as path_argument() returns them. A
// path that leads out of /workspace, even through a link, is Errc::denied with EXDEV. A call takes at most a minute.
class SessionFiles {
 public:
  // Both are borrowed.
  SessionFiles(const Session& session, const cove::mcp::Call& call);

  // Creates missing directories.
  Task<Result<sandbox::FileEntry>> write(std::string path, std::string content, sandbox::WriteMode mode);
  Task<Result<FilePiece>> read(std::string path, std::uint64_t offset, std::uint64_t most);
  // Calls `take` with each piece until it returns false. Returns the size of the file.
  Task<Result<std::uint64_t>> read_through(std::string path, std::function<bool(std::string_view)> take);
  // "" is the workspace itself.
  Task<Result<sandbox::Listing>> list(std::string path, sandbox::Recursive recursive);
  // Recursive::yes also removes a directory that is not empty.
  Task<Result<>> remove(std::string path, sandbox::Recursive recursive);

 private:
  [[nodiscard]] sandbox::SandboxFiles files() const;

  std::shared_ptr<sandbox::Sandbox> sandbox_;
  const cove::mcp::Call& call_;
};

// The message for a failed file operation, with advice.
std::string file_error_text(const Error& error);

}  // namespace cove::doors::mcp
