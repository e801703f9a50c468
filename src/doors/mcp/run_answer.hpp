#pragma once

#include <boost/json.hpp>
#include <string>

#include "config/config.hpp"
#include "doors/mcp/run.hpp"

namespace cove::doors::mcp {

// What an answer of execute_code needs besides the record of the run.
struct RunAnswer {
  config::McpProfile profile = config::McpProfile::superset;  // never `automatic`
  std::size_t max_text = 0;                                   // bytes of output in a concise answer
  config::Language language;
  std::string code;
  std::string filename;  // "": none was given
  bool saved = false;
  std::string session_id;
  bool name_session = true;  // a later call needs the id to come back
  std::string execution_id;  // its id in RecentOutputs
};
boost::json::object answer_of(const RunAnswer& about, const RunRecord& record);

}  // namespace cove::doors::mcp
