#pragma once

#include <boost/json.hpp>
#include <string>

#include "base/result.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace cove::cli {

// What a sandbox may use, as people write it.
struct LimitOptions {
  std::string memory, disk, cpus, pids;
};

void describe(CLI::App& command, LimitOptions& options);
// Those that were given, as fields of a request. Errc::invalid names the option.
Result<> set_limits(boost::json::object& body, const LimitOptions& options);

}  // namespace cove::cli
