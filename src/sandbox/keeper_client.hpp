#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "async/readiness.hpp"
#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "keeper/keeper.hpp"

namespace cove::sandbox {

// The keeper as the front's tasks see it: a question, an answer. A keeper may die; who asks then waits a moment for the
// next one, and gets Errc::unavailable if none comes.
class KeeperClient {
 public:
  using OnWord = std::function<void(const wire::KeeperReply&)>;  // unasked: died, out_of_memory

  // A question that is not answered in `answer` is followed by a cheap one. A keeper that answers that one within
  // `second` is only slow, and the question goes on waiting, up to `most` in all; one that does not is hung.
  struct Patience {
    std::chrono::milliseconds answer{5000};
    std::chrono::milliseconds second{2000};
    std::chrono::milliseconds most{30'000};
  };

  // `on_hung`: it lives and does not answer.
  KeeperClient(boost::asio::any_io_executor executor, async::TaskGroup& tasks, OnWord on_word,
               std::function<void()> on_hung, Patience patience)
      : executor_(executor),
        tasks_(tasks),
        on_word_(std::move(on_word)),
        on_hung_(std::move(on_hung)),
        patience_(patience),
        changed_(executor),
        room_(executor) {}

  // The first one, or the one after a loss. Nobody but `direct` questions reach it before open().
  void connect(keeper::KeeperLink link);
  void open();
  [[nodiscard]] bool lost() const { return !link_; }

  async::Task<Result<wire::KeeperReply>> ask(wire::KeeperRequest request, std::vector<UniqueFd> fds = {});
  // For those who bring a new keeper up to date.
  async::Task<Result<wire::KeeperReply>> ask_directly(wire::KeeperRequest request, std::vector<UniqueFd> fds = {});

 private:
  struct Pending {
    explicit Pending(boost::asio::any_io_executor executor) : answered(executor) {}
    std::optional<Result<wire::KeeperReply>> answer;
    async::Signal answered;
  };
  async::Task<> listen();
  void lose();
  std::shared_ptr<Pending> put(wire::KeeperRequest& request);
  static async::Task<bool> answered_by(std::shared_ptr<Pending> pending, std::chrono::steady_clock::time_point until);
  async::Task<bool> answers();

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  OnWord on_word_;
  std::function<void()> on_hung_;
  Patience patience_;
  std::optional<keeper::KeeperLink> link_;
  std::shared_ptr<async::Readiness> readiness_;
  bool open_ = false;
  async::Signal changed_;
  async::Signal room_;  // fewer questions are open than a moment ago
  std::map<std::uint32_t, std::shared_ptr<Pending>> pending_;
  std::uint32_t next_serial_ = 1;
};

}  // namespace cove::sandbox
