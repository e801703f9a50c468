#pragma once

#include <memory>
#include <string>

#include "async/task.hpp"
#include "base/result.hpp"

namespace cove::sandbox {

class Sandbox;

// Who gives sandboxes their way out (network/networks.hpp). The registry tells it of those that come and go.
class Networking {
 public:
  virtual ~Networking() = default;
  // Before anything runs in a new one. `policy_json`: what was asked for; "": the server's default. When it fails the
  // sandbox is not made.
  virtual async::Task<Result<>> open(std::shared_ptr<Sandbox> sandbox, std::string policy_json) = 0;
  // It runs, and its first program has not begun: what programs need to know of the network is put in.
  virtual async::Task<Result<>> furnish(std::shared_ptr<Sandbox> sandbox) = 0;
  virtual void forget(const std::string& id) = 0;
};

}  // namespace cove::sandbox
