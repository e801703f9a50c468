#pragma once

#include <string>

#include "base/result.hpp"
#include "client/http_client.hpp"

namespace cove::cli {

struct PrivateServerOptions {
  std::string state_dir;
  std::string config_file;  // "": where `cove serve` would look
};

// The way to a server that this user alone can use: the one that runs with this state directory, or one that is started
// now. It stays in the background as long as somebody is connected or a sandbox lives, and ends by itself soon after.
Result<client::Options> private_server(const PrivateServerOptions& options);
// Ends it now, with everything in it. Errc::not_found when there is none.
Result<> stop_private_server(const std::string& state_dir);

}  // namespace cove::cli
