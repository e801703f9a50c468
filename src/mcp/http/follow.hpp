#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "http/exchange.hpp"
#include "mcp/http/stream.hpp"

namespace cove::mcp_http {

using async::Task;

struct Following {
  std::uint64_t after = 0;  // the last event that the client has
  bool ids = false;         // events have ids, so that the client can resume
  bool primes = false;      // starts with an empty event, whose id allows to resume at once
  http::NameValues headers = {};
  std::string first = {};                        // sent first, unchanged
  std::function<void()> while_it_lasts = [] {};  // called from time to time
};

// Sends a stream's events until it ends, another reader takes over, or the client disconnects.
Task<> follow(http::Exchange& exchange, std::shared_ptr<Stream> stream, Following following);

}  // namespace cove::mcp_http
