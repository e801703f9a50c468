#pragma once

#include <set>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeper/poller.hpp"

namespace cove::keeper {

// The processes that change the network of a sandbox: each enters its network namespace, which nobody can leave again,
// does as it is told, sends the sockets it made there, and ends.
class NetworkHelpers {
 public:
  explicit NetworkHelpers(Poller& poller) : poller_(poller) {}

  // `order`: a wire::NetworkOrder in a memfd. `answer`: where the wire::NetworkAnswer is sent, with the sockets.
  Result<> start(int init_pidfd, UniqueFd order, UniqueFd answer);
  void reap();

 private:
  struct Less {
    bool operator()(const UniqueFd& a, const UniqueFd& b) const { return a.get() < b.get(); }
  };
  Poller& poller_;
  std::set<UniqueFd, Less> running_;  // pidfds
};

}  // namespace cove::keeper
