#pragma once

#include <boost/json.hpp>

#include "tools/broker.hpp"

namespace cove::tools {

// A server as every door lists it: {"name", "params", "package", "tools": [{"name", "module"}], …}. Nothing in it is
// secret.
boost::json::object to_json(const ServerView& view);
// {"id", "server", "tool", "arguments", "kernel", "createdAt"}.
boost::json::object to_json(const ApprovalRequest& request);

}  // namespace cove::tools
