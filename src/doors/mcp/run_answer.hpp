#pragma once

#include <boost/json.hpp>
#include <string>

#include "config/config.hpp"
#include "doors/mcp/run.hpp"

namespace cove::doors::mcp {

// What an answer of execute_code needs besides the record of the run.
struct RunAnswer {
  config::McpProfile profile = config::McpProfile::superset;
  config::Language language;
  std::string code;
  std::string filename;  // "": none was given
  bool saved = false;
  std::string session_id;
  std::string execution_id;  // its id in RecentOutputs
};
boost::json::object answer_of(const RunAnswer& about, const RunRecord& record);

}  // namespace cove::doors::mcp
