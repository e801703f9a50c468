#pragma once

#include <map>
#include <memory>
#include <string>

#include "async/task_group.hpp"
#include "sandbox/sandbox.hpp"
#include "tools/peer_calls.hpp"

namespace cove::tools {

// The socket in each sandbox over which its processes that are no kernels make calls. A program of ours inside
// (runtime/python/tools_line.py) holds it and passes on what it is told, over a channel as a kernel's. Whoever can
// reach the socket is in the sandbox and may make its calls: there is nothing to steal.
class Lines {
 public:
  Lines(async::TaskGroup& tasks, PeerCalls& calls) : tasks_(tasks), calls_(calls) {}
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // In the background, unless there is one. One that ends is started again by the next call of this.
  void open(const std::shared_ptr<sandbox::Sandbox>& sandbox);
  void forget(const std::string& sandbox_id) { open_.erase(sandbox_id); }

 private:
  async::Task<> serve(std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<bool> mark);

  async::TaskGroup& tasks_;
  PeerCalls& calls_;
  std::map<std::string, std::shared_ptr<bool>> open_;
};

}  // namespace cove::tools
