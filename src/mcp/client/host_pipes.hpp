#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>

#include "base/unique_fd.hpp"
#include "mcp/client/pipes.hpp"

namespace cove::mcp::client {

// The ends of a program that a minder minds (mcp/host/minder.hpp).
struct HostEnds {
  UniqueFd input;
  UniqueFd output;
  UniqueFd errors;
  UniqueFd control;
};

std::unique_ptr<Pipes> make_host_pipes(boost::asio::any_io_executor executor, HostEnds ends);

}  // namespace cove::mcp::client
