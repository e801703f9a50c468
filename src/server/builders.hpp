#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "wire/supervisor_messages.hpp"

namespace cove::server {

// The builder processes of the supervisor, each with one request of the front. If one cannot be started, its answer
// pipe closes, which tells the front.
class Builders {
 public:
  // `fds`: the answer pipe, and the log of a build. Ignored when there are too many builders already.
  // Errc::io when the process cannot be started.
  Result<> start(const wire::SupervisorRequest& request, const std::string& state_dir, std::vector<UniqueFd> fds);
  // To be called for every child that was reaped.
  void forget(pid_t pid) { running_.erase(pid); }

 private:
  std::set<pid_t> running_;
};

}  // namespace cove::server
