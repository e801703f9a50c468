#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/languages.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/callbacks.hpp"
#include "sandbox/kernels.hpp"
#include "sandbox/registry.hpp"

namespace cove::sandbox {

struct JobRequest {
  std::string code;
  config::Language language;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "K=V"
  std::optional<std::string> input;
  std::chrono::milliseconds timeout{30'000};
  std::uint64_t output_limit = 1U << 20;
  std::optional<std::string> event_json;  // calls handler(event) of Python code
  std::shared_ptr<Kernel> kernel;         // runs in it, and not in a process of its own
  std::string callback_url;
  std::string callback_secret;
};

// One asynchronous execution that has not ended. What it leaves is its row in the store.
struct Job {
  Job(boost::asio::any_io_executor executor, std::shared_ptr<Sandbox> in, store::ExecutionRow what)
      : sandbox(std::move(in)), row(std::move(what)), changed(std::move(executor)) {}

  std::shared_ptr<Sandbox> sandbox;
  store::ExecutionRow row;
  async::Signal changed;  // of status
  bool cancelled = false;
  std::uint64_t output_limit = 1U << 20;
  std::shared_ptr<Process> process;      // once it runs, unless in a kernel
  std::shared_ptr<Kernel> kernel;        // it runs in
  std::shared_ptr<Execution> execution;  // there

  [[nodiscard]] bool over() const { return row.result_json.has_value(); }
};

// Executions that nobody waits for: queued, run, remembered with their result, told of by callback. Those of a server
// before us go on if their process does, and end with the true reason if not.
class Jobs {
 public:
  static constexpr std::size_t kMostOfTenant = 256;       // that have not ended
  static constexpr std::size_t kMostUnfinished = 64;      // of one sandbox
  static constexpr std::uint64_t kKeptBytes = 16U << 20;  // of results of one sandbox

  Jobs(Registry& registry, Admission& admission, Callbacks& callbacks, std::function<std::uint32_t()> history,
       Callbacks::Log log);

  // Errc::quota when too many of the sandbox's have not ended, Errc::conflict while it is paused.
  Result<std::shared_ptr<Job>> submit(std::shared_ptr<Sandbox> sandbox, JobRequest request, Admission::Share share);
  // nullptr: it has ended, or never was.
  [[nodiscard]] std::shared_ptr<Job> find(const std::string& id) const;
  // It ends soon after, for this reason.
  static void cancel(Job& job, Reason reason = Reason::cancelled);

  // Before the registry takes over what a server before us left, and after it has.
  Result<> remember();
  void adopt();
  // What runs is left to the next server: nobody waits for it here any more.
  void let_go();
  // The server ends, and everything in it.
  void end_all();

  // What is shown of one: what was asked, its status and, at the end, its result.
  [[nodiscard]] boost::json::object to_json(const store::ExecutionRow& row) const;

 private:
  struct Found {
    std::string out;
    std::string err;
    std::string message;  // its last over the channel
  };
  async::Task<> run(std::shared_ptr<Job> job, JobRequest request, Admission::Share share);
  async::Task<> run_in_kernel(std::shared_ptr<Job> job, JobRequest request);
  async::Task<> run_in_process(std::shared_ptr<Job> job, JobRequest request);
  async::Task<> follow(std::shared_ptr<Job> job);
  async::Task<> watch(std::shared_ptr<Job> job);
  void begun(Job& job, std::chrono::milliseconds timeout);
  void finish(const std::shared_ptr<Job>& job, std::string status, boost::json::object result);
  void call_back(const store::ExecutionRow& row);
  void fail_with(const std::shared_ptr<Job>& job, Reason reason, std::string why);
  async::Task<boost::json::array> artifacts_of(std::shared_ptr<Sandbox> sandbox, std::int64_t since_unix_ms,
                                               std::string program);

  Registry& registry_;
  Admission& admission_;
  Callbacks& callbacks_;
  std::function<std::uint32_t()> history_;
  Callbacks::Log log_;
  std::map<std::string, std::shared_ptr<Job>> live_;
  std::map<std::string, std::optional<Admission::Ticket>> tickets_;
  std::vector<store::ExecutionRow> remembered_;
};

}  // namespace cove::sandbox
