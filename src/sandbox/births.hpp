#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "sandbox/init_session.hpp"
#include "sandbox/process_table.hpp"
#include "sandbox/sandbox_context.hpp"
#include "sandbox/sandbox_record.hpp"

namespace cove::sandbox {

// What an interpreter that is kept ready will be asked to become; it prepares for that.
enum class SpareUse : std::uint8_t { program, light_program, kernel };

// A directory of a request: absolute, without "." and "..".
std::string directory_of(const SandboxRecord& record, std::string_view given);

// How processes come into a sandbox: a program that init starts, an interpreter forked from a zygote, or one that was
// forked before and waits. The caller keeps the sandbox alive and has checked that it takes processes; everything given
// to the constructor lives at least as long as this.
class Births {
 public:
  // `changed` is notified when a birth is no longer pending.
  Births(SandboxContext& context, const SandboxRecord& record, InitSession& session, ProcessTable& processes,
         async::Signal& changed);

  using Started = async::Task<Result<std::shared_ptr<Process>>>;
  // The program of the request. Makes its working directory if that is missing and in /workspace or the sandbox's own;
  // Errc::invalid when it cannot be used.
  Started program(ProcessRequest request, std::vector<std::string> environment);
  // The spare if there is one, a fork of a zygote (`birth` asks the keeper for it), or one that is started cold.
  Started python(ProcessRequest request, std::vector<std::string> environment, wire::KeeperRequest birth);
  Started node(ProcessRequest request, std::vector<std::string> environment);

  // Forks an interpreter for the next python(), and sends it `expected`: what it will be, and its environment.
  async::Task<Result<>> keep_spare(wire::KeeperRequest birth, SpareUse use, std::string expected);
  [[nodiscard]] bool spare_died() const { return spare_ && spare_->end(); }
  // Interpreters that are on their way from a zygote.
  [[nodiscard]] int pending() const { return pending_; }

 private:
  Started spawn(ProcessRequest request, wire::SpawnKind kind, std::vector<std::string> environment);
  Started fork_zygote(ProcessRequest request, wire::KeeperRequest birth);
  // Why it could not be made, or nothing.
  async::Task<Result<std::optional<wire::SpawnFailed>>> make_directory(std::string path);
  std::shared_ptr<Process> take_spare(const ProcessRequest& request);
  async::Task<> wait_until_started(std::shared_ptr<Process> process);

  SandboxContext& context_;
  const SandboxRecord& record_;
  InitSession& session_;
  ProcessTable& processes_;
  async::Signal& changed_;
  std::shared_ptr<Process> spare_;  // waits for what it is to run
  SpareUse spare_use_ = SpareUse::program;
  int pending_ = 0;
};

}  // namespace cove::sandbox
