#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run/one_shot.hpp"
#include "cli/run/run_options.hpp"
#include "guest/outcome.hpp"
#include "keeper/keeper.hpp"

namespace cove::cli {

struct CopiedOut {
  HostFile file;
  std::uint64_t bytes = 0;
  std::string error;
  bool missing = false;  // the program did not make it
};

// Everything that is known when a run is over.
struct RunReport {
  keeper::Enforcement enforcement;
  std::vector<std::string> degraded;
  std::optional<guest::Reason> stopped_by_us;
  int cancel_signal = 0;
  ProcessEnd end;
  std::string out;  // with --json
  std::string err;
  std::vector<CopiedOut> outs;
  wire::KeeperReply counted;
  std::vector<std::string> refused;  // by the network policy, as HOST or HOST:PORT
  int uid = -1;
};

// Prints what the caller asked for (the JSON object, or a line when a limit ended the run). Returns the exit status.
int publish(const RunReport& report, const RunOptions& options);

}  // namespace cove::cli
