#pragma once

#include <functional>
#include <string>

#include "http/exchange.hpp"

namespace cove::http {

// Answers with a body of a length that is known before, in the parts that `next` gives; an empty one is their end.
// Parts beyond the length are left out. When they end too early, as those of a file that became shorter, the connection
// is reset: that must show.
Task<> send_parts(Exchange& exchange, Response head, std::uint64_t length, std::function<Task<std::string>()> next);

}  // namespace cove::http
