#pragma once

#include <boost/json.hpp>
#include <string>

#include "base/result.hpp"
#include "cli/arguments.hpp"

namespace cove::cli {

// The limits of a sandbox, as text.
struct LimitOptions {
  std::string memory, disk, cpus, pids;
};

void describe(App& command, LimitOptions& options);
// The given limits as fields of a request. Errc::invalid names the option.
Result<> set_limits(boost::json::object& body, const LimitOptions& options);

}  // namespace cove::cli
