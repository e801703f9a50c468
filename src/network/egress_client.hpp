#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/readiness.hpp"
#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "base/id.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "wire/egress_messages.hpp"

namespace cove::network {

// The front's line to the egress process: a question, an answer, and the decisions it makes meanwhile.
class EgressClient {
 public:
  using OnDecided = std::function<void(const SandboxId& id, std::string_view record)>;  // JSON

  EgressClient(boost::asio::any_io_executor executor, async::TaskGroup& tasks, OnDecided on_decided)
      : executor_(std::move(executor)), tasks_(tasks), on_decided_(std::move(on_decided)) {}

  // The first one, or the one after a loss.
  void connect(UniqueFd socket);
  [[nodiscard]] bool lost() const { return !socket_; }
  // The text of the answer. Errc::unavailable when there is no egress process, or it does not answer; another failure
  // is its refusal.
  async::Task<Result<std::string>> ask(wire::EgressRequest request, std::vector<UniqueFd> fds = {});

 private:
  struct Pending {
    explicit Pending(boost::asio::any_io_executor executor) : answered(std::move(executor)) {}
    std::optional<Result<std::string>> answer;
    async::Signal answered;
  };
  async::Task<> listen();
  void take(std::string_view message, UniqueFd memory);
  void lose();

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  OnDecided on_decided_;
  UniqueFd socket_;
  std::shared_ptr<async::Readiness> readiness_;
  std::map<std::uint32_t, std::shared_ptr<Pending>> pending_;
  std::uint32_t next_serial_ = 1;
};

}  // namespace cove::network
