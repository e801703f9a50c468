#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeper/sandbox_table.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::keeper {

// The keeper's end of the socket to its front.
class FrontLink {
 public:
  explicit FrontLink(UniqueFd socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool is_open() const { return static_cast<bool>(socket_); }
  // The other end is closed. Replies are dropped from then on.
  [[nodiscard]] bool gone() const { return gone_; }
  void close() { socket_.reset(); }

  struct Request {
    wire::KeeperRequest record;
    std::vector<UniqueFd> fds;
  };
  // nullopt when there is none now, or the front is gone.
  std::optional<Request> receive();
  // `sandbox`, if given, adds its id, its init and what its group counted.
  void send(wire::KeeperReply reply, const Sandbox* sandbox = nullptr);
  void refuse(const wire::KeeperRequest& request, const Error& error);

 private:
  UniqueFd socket_;
  bool gone_ = false;
};

void set_usage(wire::KeeperReply& reply, const sys::CgroupUsage& usage);

}  // namespace cove::keeper
