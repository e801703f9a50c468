#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <string>

#include "mcp/client/pipes.hpp"
#include "server/supervisor_link.hpp"

namespace cove::server {

// Has the supervisor start the program of [tools.NAME] on the host. What the program is, the supervisor knows by
// itself. `link` outlives every launch.
mcp::client::Launch launch_on_host(boost::asio::any_io_executor executor, SupervisorLink& link, std::string name);

}  // namespace cove::server
