#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "base/unique_fd.hpp"
#include "wire/supervisor_messages.hpp"

namespace cove::server {

// The supervisor's part in MCP servers that the operator wants on the host: starts those of the configuration that the
// supervisor itself has read, and nothing else, whatever the front asks for. Each runs as the user that the
// configuration names, without privilege, and ends when the front lets go of it.
class HostServers {
 public:
  // `named`: [tools.NAME], as JSON. The answer, or why there is none, goes to `answer`.
  void start(const std::map<std::string, std::string>& named, const wire::SupervisorRequest& request, UniqueFd answer);
  // To be called for every child that was reaped.
  void forget(pid_t pid) { running_.erase(pid); }

 private:
  std::set<pid_t> running_;
};

}  // namespace cove::server
