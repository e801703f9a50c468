#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.hpp"
#include "config/languages.hpp"
#include "jobs/callbacks.hpp"
#include "jobs/execution_history.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/kernels.hpp"
#include "sandbox/registry.hpp"

namespace cove::jobs {

struct JobRequest {
  std::string code;
  config::Language language;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "K=V"
  std::optional<std::string> input;
  std::chrono::milliseconds timeout{30'000};
  std::uint64_t output_limit = 1U << 20;
  std::optional<std::string> event_json;    // calls handler(event) of Python code
  std::shared_ptr<sandbox::Kernel> kernel;  // run in this kernel instead of a new process
  journal::Actor actor = {};                // who asks, for the journal
  std::string callback_url;
  std::string callback_secret;
  Budget::Charge charge;  // the request's share of the memory budget, held until the execution ends
};

// One asynchronous execution that has not ended. Afterwards only its row in the store remains.
struct Job {
  Job(boost::asio::any_io_executor executor, std::shared_ptr<sandbox::Sandbox> in, store::ExecutionRow what)
      : sandbox(std::move(in)), row(std::move(what)), changed(std::move(executor)) {}

  std::shared_ptr<sandbox::Sandbox> sandbox;
  store::ExecutionRow row;
  async::Signal changed;  // of status
  bool cancelled = false;
  std::uint64_t output_limit = 1U << 20;
  Budget::Charge charge;
  std::shared_ptr<sandbox::Process> process;      // once it runs, unless in a kernel
  std::shared_ptr<sandbox::Kernel> kernel;        // it runs in
  std::shared_ptr<sandbox::Execution> execution;  // there

  [[nodiscard]] bool over() const { return row.result_json.has_value(); }
};

// Asynchronous executions: queued, run, stored with their result, reported by callback. Executions of a previous server
// continue if their process does; otherwise they end with the true reason.
class Jobs {
 public:
  static constexpr std::size_t kMaxOfTenant = 256;   // unfinished, of one tenant
  static constexpr std::size_t kMaxUnfinished = 64;  // of one sandbox

  Jobs(sandbox::Registry& registry, sandbox::Admission& admission, Callbacks& callbacks,
       std::function<ExecutionHistory::Limits()> history, Callbacks::Log log);

  // Errc::quota when the sandbox has too many unfinished ones, Errc::conflict while it is paused; with a callback, also
  // the errors of Callbacks::admit.
  Result<std::shared_ptr<Job>> submit(std::shared_ptr<sandbox::Sandbox> sandbox, JobRequest request,
                                      sandbox::Admission::Share share);
  // nullptr: it has ended, or never existed.
  [[nodiscard]] std::shared_ptr<Job> find(const std::string& id) const;
  // Asks it to end, with this reason; it does so soon after.
  static void cancel(Job& job, guest::Reason reason = guest::Reason::cancelled);

  // To be called before and after the registry adopts the sandboxes of a previous server.
  Result<> remember();
  void adopt();
  // Leaves running executions to the next server, and stops waiting for them here.
  void let_go();
  // Ends all executions, for a server that stops.
  void end_all();

  // An execution as clients see it: the request, its status and, at the end, its result.
  [[nodiscard]] boost::json::object to_json(const store::ExecutionRow& row) const;

  [[nodiscard]] ExecutionHistory& history() { return history_; }

 private:
  struct Found {
    std::string out;
    std::string err;
    std::string message;  // the handler's last message on the channel
  };
  async::Task<> run(std::shared_ptr<Job> job, JobRequest request, sandbox::Admission::Share share);
  async::Task<> run_in_kernel(std::shared_ptr<Job> job, JobRequest request);
  async::Task<> run_in_process(std::shared_ptr<Job> job, JobRequest request);
  async::Task<> follow(std::shared_ptr<Job> job);
  async::Task<> watch(std::shared_ptr<Job> job);
  void begun(Job& job, std::chrono::milliseconds timeout);
  void finish(const std::shared_ptr<Job>& job, std::string status, boost::json::object result);
  bool stored(const Job& job);
  async::Task<> store_later(std::shared_ptr<Job> job);
  void call_back(const store::ExecutionRow& row);
  void fail_with(const std::shared_ptr<Job>& job, guest::Reason reason, std::string why);
  async::Task<boost::json::array> artifacts_of(std::shared_ptr<sandbox::Sandbox> sandbox, std::int64_t since_unix_ms,
                                               std::string program);

  sandbox::Registry& registry_;
  sandbox::Admission& admission_;
  Callbacks& callbacks_;
  ExecutionHistory history_;
  Callbacks::Log log_;
  std::map<std::string, std::shared_ptr<Job>> live_;
  std::map<std::string, std::optional<sandbox::Admission::Ticket>> tickets_;
  std::vector<store::ExecutionRow> remembered_;
};

}  // namespace cove::jobs
