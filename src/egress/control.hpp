#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.hpp"
#include "base/id.hpp"
#include "base/unique_fd.hpp"
#include "egress/sandbox_egress.hpp"
#include "wire/egress_messages.hpp"

namespace cove::egress {

// The front's orders, and what it is told (wire/egress_messages.hpp).
class Control {
 public:
  static constexpr std::size_t kMaxSandboxes = 4096;

  // `common` must outlive it.
  Control(Common& common, UniqueFd front);

  // Until the front is gone; every sandbox is closed then.
  async::Task<> serve();

 private:
  using Sandboxes = std::map<SandboxId, std::shared_ptr<SandboxEgress>>;

  void handle(const wire::EgressRequest& request, std::vector<UniqueFd> fds);
  Result<> open(const wire::EgressRequest& request, std::vector<UniqueFd> fds);
  Result<> change(const wire::EgressRequest& request, std::vector<UniqueFd> fds);
  void inspect(const wire::EgressRequest& request);
  // What is answered to open and change.
  [[nodiscard]] std::string certificate_of(const SandboxId& id) const;

  void send(wire::EgressReply reply, std::string_view text);
  // Answers first, then the records of all sandboxes in turn, as far as the front takes them.
  void flush();
  void flush_soon();
  bool send_now(const std::string& message, int fd);
  bool send_records();

  struct Message {
    std::string bytes;
    UniqueFd fd;
  };
  Common& common_;
  UniqueFd front_;
  boost::asio::posix::stream_descriptor waiting_;  // borrows the front's descriptor
  Sandboxes sandboxes_;
  std::deque<Message> answers_;
  std::optional<Message> unsent_record_;
  SandboxId last_;  // whose record was sent last
  bool blocked_ = false;
  bool soon_ = false;
  bool gone_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cove::egress
