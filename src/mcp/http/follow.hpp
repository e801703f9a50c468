#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "http/exchange.hpp"
#include "mcp/http/stream.hpp"

namespace cove::mcp_http {

using async::Task;

struct Following {
  std::uint64_t after = 0;  // what the client has already
  bool ids = false;         // events have ids, so that it can come back
  bool primes = false;      // the first is empty: there is something to come back to before anything has happened
  http::NameValues headers = {};
  std::string first = {};                        // sent before anything else, as it is
  std::function<void()> while_it_lasts = [] {};  // called now and then
};

// Sends a stream's events as they come, until it is over, another reads it, or the client has left.
Task<> follow(http::Exchange& exchange, std::shared_ptr<Stream> stream, Following following);

}  // namespace cove::mcp_http
