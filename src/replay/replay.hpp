#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "journal/journal.hpp"
#include "packages/installs.hpp"
#include "run/caller.hpp"
#include "sandbox/core.hpp"

namespace cove::replay {

// What to do again, and where.
struct Wish {
  std::string sandbox;             // SandboxRow::id of the one whose journal it is
  std::int64_t until = INT64_MAX;  // the last act
  std::string name;                // of the fresh sandbox
  std::chrono::milliseconds ttl{0};
};

// One act, done again.
struct Step {
  enum class State { same, differs, skipped };
  store::ActivityRow act;
  State state = State::same;
  std::vector<std::string> differences;  // "exitCode: 0, was 1", "stdout"
  std::string why;                       // of one that was skipped
  std::string outcome;                   // this time
};
std::string_view name_of(Step::State state);

// Does the acts of a journal again in a fresh sandbox, one after the other, and compares how they end. Lifecycle but
// the limits, interrupts and what was typed into programs are not done again. One caller at a time.
class Replay {
 public:
  // Makes the sandbox, with the template, limits and variables that the other one had. Errc::not_found when the
  // journal does not have its beginning any more.
  static async::Task<Result<std::unique_ptr<Replay>>> begin(sandbox::Core& core, packages::Installs& installs,
                                                            run::Caller caller, Wish wish);
  ~Replay();

  [[nodiscard]] const std::shared_ptr<sandbox::Sandbox>& sandbox() const { return sandbox_; }
  [[nodiscard]] std::size_t steps() const { return acts_.size(); }
  // The next one, done; none after the last, or when the caller is gone.
  async::Task<std::optional<Step>> next();

 private:
  struct Background {
    store::ActivityRow act;
    std::shared_ptr<sandbox::Process> process;
    std::int64_t again = 0;
  };
  Replay(sandbox::Core& core, packages::Installs& installs, run::Caller caller,
         std::shared_ptr<sandbox::Sandbox> sandbox);
  async::Task<Step> repeat(store::ActivityRow act);
  async::Task<Step> finish_background(Background one);
  async::Task<Result<>> run_again(const store::ActivityRow& act, const boost::json::object& repeat);
  async::Task<Result<>> execute_again(const store::ActivityRow& act, const boost::json::object& repeat);
  async::Task<Result<>> change_files_again(const boost::json::object& repeat);
  async::Task<Result<>> install_again(const boost::json::object& repeat);
  async::Task<Result<std::shared_ptr<sandbox::Kernel>>> kernel_for(const boost::json::object& repeat);

  sandbox::Core& core_;
  packages::Installs& installs_;
  run::Caller caller_;
  std::shared_ptr<sandbox::Sandbox> sandbox_;
  sandbox::Sandbox::Activity activity_;
  std::vector<store::ActivityRow> acts_;
  std::size_t at_ = 0;
  std::map<std::string, std::shared_ptr<sandbox::Kernel>> kernels_;  // by the id that the first one had
  std::shared_ptr<sandbox::Process> started_;                        // by the act that is being done, in the background
  std::vector<Background> background_;
};

// How the second ended otherwise than the first; empty when it did not.
std::vector<std::string> differences(const store::ActivityRow& first, const store::ActivityRow& second);

}  // namespace cove::replay
