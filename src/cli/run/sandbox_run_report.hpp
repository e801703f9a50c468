#pragma once

#include <string>

#include "fastapi/value.hpp"

namespace cove::cli {

// What came of one call of a handler.
struct HandlerReport {
  int exit_code = 0;
  std::string out;
  std::string err;
  fastapi::Value result;
  double duration_ms = 0;
  double cpu_ms = 0;
  double peak_mb = 0;
  std::string timestamp;  // "" unless it is to be told
};

struct ReportStyle {
  bool profile = false;
  bool verbose = false;
  bool colours = false;
};

// In the three forms of `sandbox-run`. No line break at the end.
std::string pretty_report(const HandlerReport& report, const ReportStyle& style);
std::string json_report(const HandlerReport& report);
std::string yaml_report(const HandlerReport& report);

}  // namespace cove::cli
