#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "doors/mcp/run.hpp"
#include "mcp/peer.hpp"
#include "run/run.hpp"

namespace cove::doors::mcp {

// Collects output as lines and reports it to the client as progress and log messages. Keeps no more than fits into an
// answer.
class OutputReporter {
 public:
  // Both are borrowed. `max_bytes`: kept of each stream. `tool`: the logger's name.
  OutputReporter(cove::mcp::Call& call, RunRecord& record, std::size_t max_bytes,
                 std::string_view tool = "execute_code")
      : call_(call), record_(record), max_bytes_(max_bytes), tool_(tool) {}

  void add(OutputLine::Stream stream, std::string_view text);
  // Sends progress, at most ten times a second.
  void report();
  // Adds a last line that has no newline.
  void finish();

 private:
  void add_line(OutputLine::Stream stream, std::string_view text);
  void log(OutputLine::Stream stream, std::string_view text);

  cove::mcp::Call& call_;
  RunRecord& record_;
  std::size_t max_bytes_;
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
