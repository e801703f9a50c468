#pragma once

#include <sys/types.h>

#include <functional>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "config/config.hpp"
#include "server/front_home.hpp"

namespace cove::server {

// The supervisor's handle on the egress process: without privilege, with an id of its own, no files, and one socket to
// the front.
class EgressProcess {
 public:
  // Starts one, in the place of the one before. The front's end of its socket.
  Result<UniqueFd> start(const config::Config& config, const FrontHome& home);
  [[nodiscard]] pid_t pid() const { return pid_; }
  // It has ended.
  void forget() { pid_ = -1; }

 private:
  pid_t pid_ = -1;
};

}  // namespace cove::server
