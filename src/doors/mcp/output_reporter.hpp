#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "doors/mcp/run.hpp"
#include "mcp/peer.hpp"
#include "run/run.hpp"

namespace cove::doors::mcp {

// Collects output as lines and reports it while it comes, at max_bytes ten times a second. Keeps no more than an
// answer can hold.
class OutputReporter {
 public:
  // Both are borrowed. `max_bytes`: bytes that are kept of each stream. `tool`: whose output it is, in the log.
  OutputReporter(cove::mcp::Call& call, RunRecord& record, std::size_t max_bytes,
                 std::string_view tool = "execute_code")
      : call_(call), record_(record), max_bytes_(max_bytes), tool_(tool) {}

  void add(Line::Stream stream, std::string_view text);
  void report();
  // Takes a last line without a newline.
  void finish();

 private:
  void add_line(Line::Stream stream, std::string_view text);
  void log(Line::Stream stream, std::string_view text);

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

// Reads all output of a run to its end; the run is stopped when its caller goes.
Task<> read_to_end(run::Run& run, OutputReporter& reporter);

}  // namespace cove::doors::mcp
