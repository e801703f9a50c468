#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "doors/mcp/stream.hpp"
#include "http/exchange.hpp"

namespace cove::doors::mcp {

using async::Task;

struct Following {
  std::uint64_t after = 0;  // what the client has already
  bool ids = false;         // events have ids, so that it can come back
  bool primes = false;      // the first is empty: there is something to come back to before anything has happened
  http::NameValues headers = {};
  std::string first = {};                               // sent before anything else, as it is
  std::function<bool()> goes_on = [] { return true; };  // asked now and then
};

// Sends a stream's events as they come, until it is over, another reads it, or the client has left.
Task<> follow(http::Exchange& exchange, std::shared_ptr<Stream> stream, Following following);

}  // namespace cove::doors::mcp
