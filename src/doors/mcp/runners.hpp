#pragma once

#include "doors/mcp/run.hpp"

namespace cove::doors::mcp {

// The two ways in which code runs. For run.cpp.

struct Started {
  Ran ran;
  bool touched = true;              // files may have been written
  std::vector<Image> large_images;  // that are too large for an answer
};

// In the session's interpreter.
Task<Result<Started>> run_live(Services& services, cove::mcp::Call& call, Session& session,
                               sandbox::KernelLanguage language, RunRequest request);
// As a program, whose file lies at `path` below the workspace.
Task<Result<Started>> run_program(Services& services, cove::mcp::Call& call, Session& session, RunRequest request,
                                  std::string path);

}  // namespace cove::doors::mcp
