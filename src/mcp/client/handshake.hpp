#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/client/client.hpp"
#include "mcp/client/connection.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp::client {

// What a server says of itself.
struct Greeting {
  Revision revision = kModern;
  boost::json::object server_info{};
  boost::json::object capabilities{};
  std::string instructions{};
};

struct Opened {
  std::shared_ptr<Connection> connection;
  Greeting greeting;
};

// Which way a server was reached, by configuration.
class EraMemory {
 public:
  enum class Way { unknown, modern, legacy, sse };
  [[nodiscard]] Way recall(const ServerConfig& config) const;
  void learn(const ServerConfig& config, Way way);

 private:
  std::map<std::string, Way> ways_;  // by a digest of the configuration
};

// Starts or reaches the server and agrees on a revision: asks for `server/discover` first, and where that is unknown
// says `initialize`; over HTTP, where that is unknown too, opens HTTP+SSE. Errors as Client::connect has them.
async::Task<Result<Opened>> open_connection(std::shared_ptr<const Environment> environment,
                                            std::shared_ptr<const ServerConfig> config,
                                            std::shared_ptr<Counters> counters);

}  // namespace cove::mcp::client
