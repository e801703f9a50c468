#pragma once

#include <string>

#include "base/result.hpp"
#include "client/http_client.hpp"

namespace cove::cli {

struct PrivateServerOptions {
  std::string state_dir;
  std::string config_file;  // "": where `cove serve` would look
};

// Connects to the user's own server: the one that runs in this state directory, or a new one. It stays in the
// background while a client is connected or a sandbox exists, and exits soon after.
Result<client::Options> private_server(const PrivateServerOptions& options);
// Stops that server, with all its sandboxes. Errc::not_found when there is none.
Result<> stop_private_server(const std::string& state_dir);

}  // namespace cove::cli
