#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/languages.hpp"
#include "run/workplace.hpp"
#include "sandbox/process.hpp"
#include "sandbox/program.hpp"
#include "sandbox/reader.hpp"

namespace cove::run {

// A command with its arguments.
struct Command {
  std::vector<std::string> argv;
};

// Code of a language, which lies or will lie at `path`. Python runs in an interpreter of ours, everything else by the
// language's own command.
struct Source {
  config::Language language;
  std::string code;
  std::string path;
  std::vector<std::string> arguments = {};
  sandbox::Program::Echo echo = sandbox::Program::Echo::none;
};
using Code = std::variant<Command, sandbox::Program, sandbox::HandlerCall>;
Code code_of(Source source);

// What a run does when its caller has gone: it is given up, or stopped and still read to its end.
enum class WhenGone { give_up, stop };

// What to run, and how.
struct Spec {
  Code code;
  sandbox::ProcessRequest process = {};   // directory, variables, limits, delivery; its command comes from `code`
  std::optional<std::string> input = {};  // of a program that reads; none: its standard input is empty
  WhenGone when_gone = WhenGone::give_up;
};

// One command, program or handler that somebody waits for. Whatever way out is taken, it does not outlive this.
class Run {
 public:
  // It runs when this returns, or failed to start, which is its end then. Fails as Sandbox::start does.
  static async::Task<Result<Run>> begin(Caller caller, Workplace workplace, Spec spec);
  // The same where somebody else holds the ticket and the sandbox.
  static async::Task<Result<Run>> begin(Caller caller, std::shared_ptr<sandbox::Sandbox> sandbox, Spec spec);
  Run(Run&&) noexcept = default;
  Run& operator=(Run&&) = delete;
  ~Run();

  // The next events, or none after a poll interval without any; nothing when the caller has gone.
  async::Task<std::optional<sandbox::Reader::Batch>> next();
  // Until the end, without its events. False: the caller has gone.
  async::Task<bool> wait();

  [[nodiscard]] const std::shared_ptr<sandbox::Process>& process() const { return process_; }
  [[nodiscard]] const std::shared_ptr<sandbox::Sandbox>& sandbox() const { return sandbox_; }
  // After the end.
  [[nodiscard]] const sandbox::ProcessEnd& end() const { return *process_->end(); }

 private:
  Run(Caller caller, std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<sandbox::Process> process,
      WhenGone when_gone);
  // False: the caller has gone, and the run is given up.
  bool check_caller();

  Caller caller_;
  std::optional<Workplace> workplace_;  // if it is ours
  std::shared_ptr<sandbox::Sandbox> sandbox_;
  std::shared_ptr<sandbox::Process> process_;
  std::unique_ptr<sandbox::Reader> reader_;  // once somebody reads
  WhenGone when_gone_;
};

// Starts `code` in a sandbox, whoever waits for it. Fails as Sandbox::start does.
async::Task<Result<std::shared_ptr<sandbox::Process>>> start(std::shared_ptr<sandbox::Sandbox> sandbox, Spec spec);

}  // namespace cove::run
