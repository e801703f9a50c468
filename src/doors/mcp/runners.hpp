#pragma once

#include "doors/mcp/run.hpp"

namespace cove::doors::mcp {

// The two ways to run code; only run.cpp calls them.

struct RunOutcome {
  RunRecord record;
  bool touched = true;              // files may have been written
  std::vector<Image> large_images;  // too large for an answer
};

// Runs code in the session's interpreter.
Task<Result<RunOutcome>> run_live(Services& services, cove::mcp::Call& call, Session& session,
                                  sandbox::KernelLanguage language, RunRequest request);
// Runs code as a program; its file is at `path`, relative to the workspace.
Task<Result<RunOutcome>> run_program(Services& services, cove::mcp::Call& call, Session& session, RunRequest request,
                                     std::string path);

}  // namespace cove::doors::mcp
