#pragma once

#include <boost/json.hpp>
#include <string>

#include "config/config.hpp"
#include "doors/mcp/run.hpp"

namespace cove::doors::mcp {

// What execute_code answers with, and about what.
struct RunAnswer {
  config::McpProfile profile = config::McpProfile::superset;
  config::Language language;
  std::string code;
  std::string filename;  // "": none was given
  bool saved = false;
  std::string session_id;
  std::string execution_id;  // what its output can be read by: RecentOutputs
};
boost::json::object answer_of(const RunAnswer& about, const RunRecord& record);

}  // namespace cove::doors::mcp
