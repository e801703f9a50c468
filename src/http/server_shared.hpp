#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "base/budget.hpp"
#include "http/auth.hpp"
#include "http/server.hpp"

namespace cove::http {

// What the connections of one server have in common.
struct ServerShared {
  boost::asio::any_io_executor executor;
  std::shared_ptr<const ServerOptions> options;
  const Router& router;
  Authenticator& authenticator;
  Server::Hooks hooks;
  Server::Counts counts;
  FailureThrottle throttle;
  Budget budget;
  std::string scratch = std::string(std::size_t{64} << 10, '\0');  // for one recv(2), used up before anybody else runs
  bool draining = false;
};

}  // namespace cove::http
