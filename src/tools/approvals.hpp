#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "base/result.hpp"

namespace cove::tools {

// What somebody is asked about.
struct ApprovalRequest {
  std::string id;
  std::string server;
  std::string tool;
  boost::json::object arguments;
  std::string kernel{};  // whose call it is; "": of no kernel
  std::int64_t created_unix_ms = 0;
};

struct ApprovalAnswer {
  enum class Kind : std::uint8_t { approved, rejected, expired, unconnected, disconnected, abandoned };
  Kind kind = Kind::rejected;
  std::string reason{};  // what a person said with it
};

// Approvals of calls, by sandbox. One connection may be the approver of a sandbox and is sent every request; those
// without one wait to be listed and answered.
class Approvals {
 public:
  static constexpr std::size_t kMaxPending = 256;  // of one sandbox

  explicit Approvals(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}
  Approvals(const Approvals&) = delete;
  Approvals& operator=(const Approvals&) = delete;

  // Whether to wait for somebody to list and answer, when no approver is connected.
  enum class Unattended : std::uint8_t { wait, fail };
  // Returns with the answer. Errc::over_limit: too many wait already.
  async::Task<Result<ApprovalAnswer>> ask(std::string sandbox, ApprovalRequest request,
                                          std::chrono::milliseconds patience, Unattended unattended,
                                          std::function<bool()> abandoned);

  [[nodiscard]] std::vector<ApprovalRequest> pending(const std::string& sandbox) const;
  [[nodiscard]] std::size_t count() const { return count_; }
  // Errc::not_found: nobody waits for this.
  Result<> answer(const std::string& sandbox, std::string_view id, bool approved, std::string reason);

  // A connection that is sent what is asked from now on. One at a time: another waits up to `patience` for the first to
  // leave. Errc::conflict when it does not. `send` must not wait.
  using Send = std::function<void(const ApprovalRequest& request)>;
  async::Task<Result<std::uint64_t>> attach(std::string sandbox, Send send, std::chrono::milliseconds patience);
  // What it was sent and has not answered fails.
  void detach(const std::string& sandbox, std::uint64_t approver);
  // Somebody is or was its approver: calls that no policy decides are asked about.
  [[nodiscard]] bool supervised(const std::string& sandbox) const;
  void supervise(const std::string& sandbox) { supervised_[sandbox] = true; }
  // Called when that begins and ends.
  void on_supervised(std::function<void(const std::string& sandbox, bool supervised)> told) {
    on_supervised_ = std::move(told);
  }
  // Ends that; what waits is abandoned.
  void forget(const std::string& sandbox);

 private:
  struct Pending {
    Pending(boost::asio::any_io_executor executor, ApprovalRequest of)
        : request(std::move(of)), changed(std::move(executor)) {}
    ApprovalRequest request;
    std::optional<ApprovalAnswer> answer;
    std::uint64_t approver = 0;  // that was sent it
    async::Signal changed;
  };
  struct Desk {
    explicit Desk(boost::asio::any_io_executor executor) : left(std::move(executor)) {}
    std::map<std::string, std::shared_ptr<Pending>, std::less<>> pending;
    Send send;
    std::uint64_t approver = 0;  // 0: none
    async::Signal left;
  };
  std::shared_ptr<Desk> desk_of(const std::string& sandbox);
  static void settle(const std::shared_ptr<Pending>& pending, ApprovalAnswer answer);

  boost::asio::any_io_executor executor_;
  std::map<std::string, std::shared_ptr<Desk>> desks_;
  std::map<std::string, bool> supervised_;
  std::function<void(const std::string& sandbox, bool supervised)> on_supervised_ = [](const auto&, bool) {};
  std::uint64_t next_ = 1;
  std::size_t count_ = 0;
};

// What the one who made the call is told: "Approval request for S.T rejected". "" when it was approved.
std::string refusal_of(const ApprovalAnswer& answer, std::string_view server, std::string_view tool);

}  // namespace cove::tools
