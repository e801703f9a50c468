#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "cli/run/one_shot.hpp"
#include "egress/policy.hpp"

namespace cove::cli {

// The way out of the sandbox of one command: an egress process for as long as it runs. Ends it when it goes.
class RunNetwork {
 public:
  // `resolver`: "ADDRESS[:PORT]" of the name server; "": the system's. Before there are threads.
  static Result<RunNetwork> start(const std::string& resolver);
  RunNetwork(RunNetwork&& other) noexcept;
  RunNetwork& operator=(RunNetwork&&) = delete;
  ~RunNetwork();

  // Nothing may run in the sandbox before that.
  Result<> open(OneShot& shot, const egress::Policy& policy);
  // What was refused so far, as HOST or HOST:PORT, each once.
  [[nodiscard]] std::vector<std::string> refused();

 private:
  RunNetwork(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  Result<std::vector<UniqueFd>> make_sockets(OneShot& shot, const egress::Policy& policy);

  UniqueFd socket_;
  pid_t pid_ = -1;
};

}  // namespace cove::cli
