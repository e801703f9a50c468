#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/languages.hpp"
#include "journal/act.hpp"
#include "run/workplace.hpp"
#include "sandbox/process.hpp"
#include "sandbox/program.hpp"
#include "sandbox/reader.hpp"

namespace cove::run {

// A command with its arguments.
struct Command {
  std::vector<std::string> argv;
  // The program that it runs, if it is one of a language: for the journal.
  struct Program {
    std::string language;
    std::string code;
    std::string path;
  };
  std::optional<Program> program = {};
};

// Code in a language, stored at `path`. Python runs in an interpreter of the runtime, other languages by their own
// command.
struct Source {
  config::Language language;
  std::string code;
  std::string path;
  std::vector<std::string> arguments = {};
  sandbox::Program::Echo echo = sandbox::Program::Echo::none;
};
using Code = std::variant<Command, sandbox::Program, sandbox::HandlerCall>;
Code code_of(Source source);

// What happens to a run when its caller is gone: it is abandoned, or stopped and read to its end.
enum class WhenGone { give_up, stop };

// What to run, and how.
struct Spec {
  Code code;
  sandbox::ProcessRequest process = {};   // directory, variables, limits, delivery; its command comes from `code`
  std::optional<std::string> input = {};  // standard input; none: empty
  WhenGone when_gone = WhenGone::give_up;
  journal::Actor actor = {};  // who asks, for the journal; a caller's own principal counts
};

// One command, program or handler with a waiting caller. Its process does not outlive this object.
class Run {
 public:
  // When this returns, the process runs, or has failed to start and so has ended. Fails as Sandbox::start does.
  static async::Task<Result<Run>> begin(Caller caller, Workplace workplace, Spec spec);
  // The same when the caller keeps the ticket and the sandbox.
  static async::Task<Result<Run>> begin(Caller caller, std::shared_ptr<sandbox::Sandbox> sandbox, Spec spec);
  Run(Run&&) noexcept = default;
  Run& operator=(Run&&) = delete;
  ~Run();

  // The next events; an empty batch after a poll interval without any; nullopt when the caller is gone.
  async::Task<std::optional<sandbox::Reader::Batch>> next();
  // Waits for the end, ignoring events. False: the caller is gone.
  async::Task<bool> wait();

  [[nodiscard]] const std::shared_ptr<sandbox::Process>& process() const { return process_; }
  [[nodiscard]] const std::shared_ptr<sandbox::Sandbox>& sandbox() const { return sandbox_; }
  // After the end.
  [[nodiscard]] const sandbox::ProcessEnd& end() const { return *process_->end(); }

 private:
  Run(Caller caller, std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<sandbox::Process> process,
      WhenGone when_gone);
  // False: the caller is gone, and the run is abandoned.
  bool check_caller();

  Caller caller_;
  std::optional<Workplace> workplace_;  // if it is ours
  std::shared_ptr<sandbox::Sandbox> sandbox_;
  std::shared_ptr<sandbox::Process> process_;
  std::unique_ptr<sandbox::Reader> reader_;  // once somebody reads
  WhenGone when_gone_;
};

// Starts `code` in a sandbox without waiting for it. Fails as Sandbox::start does.
async::Task<Result<std::shared_ptr<sandbox::Process>>> start(std::shared_ptr<sandbox::Sandbox> sandbox, Spec spec);

}  // namespace cove::run
