#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "guest/limit_message.hpp"
#include "sandbox/init_session.hpp"
#include "sandbox/process.hpp"
#include "sandbox/sandbox_context.hpp"
#include "sandbox/sandbox_record.hpp"

namespace cove::sandbox {

// The processes of one sandbox: their numbers, their rows in the store, and a bound on the memory their events take.
// Everything it is given lives at least as long as it does.
class ProcessTable {
 public:
  ProcessTable(SandboxContext& context, const SandboxRecord& record, InitSession& session,
               const ResourceCounters& counters);
  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;
  // Detaches the processes that somebody still holds.
  ~ProcessTable();

  // A new process under the next number. Written to the store first if a server after us is to find it.
  Result<std::shared_ptr<Process>> add(ProcessRequest request);
  // A waiting interpreter becomes the process of this request.
  Result<> assign(Process& process, ProcessRequest request);
  // Removes one that never started.
  void withdraw(const std::shared_ptr<Process>& process);
  // Ends it if it still runs, and removes it.
  void forget(const std::shared_ptr<Process>& process);
  // Nobody reads it any more: it gets a moment to end by itself, and is forgotten then.
  void release(const std::shared_ptr<Process>& process);

  [[nodiscard]] std::uint32_t next_number() const { return next_number_; }
  // Null when there is none.
  [[nodiscard]] std::shared_ptr<Process> find(std::uint32_t number) const;
  [[nodiscard]] std::shared_ptr<Process> find(ProcessKind kind, std::string_view owner) const;
  // Those callers see as processes, by number.
  [[nodiscard]] std::vector<std::shared_ptr<Process>> visible() const;
  // Those of kernels that live.
  [[nodiscard]] std::vector<std::shared_ptr<Process>> interpreters() const;
  // Whether another process may run in the background.
  [[nodiscard]] Result<> check_background_quota() const;

  // After a restart: what the server before us wrote down, until init has reported.
  Result<> restore();
  // What init reports over a connection, in this order.
  void on_connected() { first_of_connection_ = next_number_; }
  void on_known(std::uint32_t number, const wire::Known& known);
  void on_synced();
  void on_disconnected();
  // Nothing inside lives any more.
  void on_sandbox_gone();
  // Processes that were stopped while the sandbox was paused get their whole grace time.
  void on_resumed();
  // Readers that stopped reading no longer hold their producers back.
  void on_tick();

  // --- For Process. ---
  [[nodiscard]] InitSession& session() const { return session_; }
  [[nodiscard]] const ResourceCounters& counters() const { return counters_; }
  // Somebody may ask for more than its exit status.
  [[nodiscard]] bool named() const { return record_.purpose == Purpose::named; }
  [[nodiscard]] guest::RunLimits limits() const;
  [[nodiscard]] bool paused() const { return record_.state == State::paused; }
  // Bytes of events that came into memory; those of the largest holders are dropped over the bound.
  void hold(std::size_t bytes);
  void let_go(std::size_t bytes) { held_ -= std::min(held_, bytes); }
  void record_end(const Process& process);

 private:
  Result<> write_row(std::uint32_t number, const ProcessRequest& request);
  void erase_row(std::uint32_t number);
  std::shared_ptr<Process> insert(std::uint32_t number, ProcessRequest request);
  void adopt_orphan(std::uint32_t number, const wire::Known& known);
  void prune_finished();

  SandboxContext& context_;
  const SandboxRecord& record_;
  InitSession& session_;
  const ResourceCounters& counters_;
  std::map<std::uint32_t, std::shared_ptr<Process>> processes_;
  std::map<std::uint32_t, store::ProcessRow> stored_;  // of the server before us, not reported by init yet
  std::uint32_t next_number_;
  std::uint32_t first_of_connection_ = 1;  // processes from this number on were started over this connection
  std::set<std::uint32_t> reported_;       // by init, over this connection
  std::size_t held_ = 0;
};

}  // namespace cove::sandbox
