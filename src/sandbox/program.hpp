#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "async/task.hpp"
#include "base/result.hpp"
#include "sandbox/process.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {

// Where a program lies, and what it finds as sys.argv[0].
inline const std::string kProgramPath = std::string("/workspace/") + wire::kProgramFile;

// A Python program that runs to its end.
struct Program {
  enum class Echo : std::uint8_t { none, last_expression };
  std::string code;  // UTF-8
  Echo echo = Echo::none;
  std::chrono::seconds cpu{0};  // of each process; then SIGKILL. 0: no limit
};

// Starts it as `request` says, of which the command is made here. Fails as Sandbox::start does.
async::Task<Result<std::shared_ptr<Process>>> start_program(std::shared_ptr<Sandbox> sandbox, Program program,
                                                            ProcessRequest request);

}  // namespace cove::sandbox
