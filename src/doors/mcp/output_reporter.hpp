#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/mcp/run.hpp"
#include "mcp/peer.hpp"
#include "run/run.hpp"

namespace cove::doors::mcp {

// Collects output as lines and reports it to the client as progress and log messages. Keeps no more in memory than fits
// into an answer; all of it goes to RunRecord::kept.
class OutputReporter {
 public:
  // Both are borrowed. `max_bytes`: of each stream in memory, and in log messages. `tool`: the logger's name.
  OutputReporter(cove::mcp::Call& call, RunRecord& record, std::shared_ptr<RecentOutputs::Output> kept,
                 std::size_t max_bytes, std::string_view tool = "execute_code");

  void add(OutputLine::Stream stream, std::string_view text);
  // Sends progress, at most ten times a second.
  void report();
  // Nothing more comes: adds a last line that has no newline. `written`: by a process whose output was cut on its way.
  void finish(std::optional<RecentOutputs::Output::Written> written = {});

 private:
  void add_line(OutputLine::Stream stream, std::string_view text);
  void log(OutputLine::Stream stream, std::string_view text);

  cove::mcp::Call& call_;
  RunRecord& record_;
  std::size_t log_left_out_;  // bytes that may still be logged
  std::size_t log_left_err_;
  std::string_view tool_;
  std::size_t line_bytes_left_ = kMaxLineBytes;
  std::string unreported_;
  std::string out_part_;
  std::string err_part_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Reads a run's output to its end. The run is stopped when its caller is gone.
Task<> read_to_end(run::Run& run, OutputReporter& reporter);

}  // namespace cove::doors::mcp
