#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  std::string path = kProgramPath;
  std::vector<std::string> arguments = {};  // sys.argv; empty: the path alone
  std::vector<std::string> outputs = {};    // variables to tell of when it came to its end
};

// Starts it as `request` says, of which the command is made here. Fails as Sandbox::start does.
async::Task<Result<std::shared_ptr<Process>>> start_program(std::shared_ptr<Sandbox> sandbox, Program program,
                                                            ProcessRequest request);

// A function of the name `handler` that is called once.
struct HandlerCall {
  std::string code;  // UTF-8
  std::string event_json;
  std::string context_json;
};
async::Task<Result<std::shared_ptr<Process>>> start_handler(std::shared_ptr<Sandbox> sandbox, HandlerCall call,
                                                            ProcessRequest request);

// What a program or a handler that has ended said last over its channel, if that was no larger than `most`. The word of
// code nobody has read. What its process held beside its streams must have had room for it (ProcessRequest::history).
std::optional<std::string> last_message(const Process& process, std::size_t most);

// The processor time of its code alone: what the interpreter had used before, while it waited say, is not among it.
// Told by the runtime before the first line of the code ran.
std::chrono::milliseconds cpu_time(const Process& process);

}  // namespace cove::sandbox
