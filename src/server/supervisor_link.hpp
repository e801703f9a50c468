#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <optional>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "server/log.hpp"
#include "wire/supervisor_messages.hpp"

namespace cove::server {

// The front's socket to its supervisor. Requests are sent without waiting, so that the loop never blocks.
class SupervisorLink {
 public:
  // `log` is borrowed.
  SupervisorLink(boost::asio::any_io_executor executor, UniqueFd socket, const Log& log);

  Result<> ask(const wire::SupervisorRequest& request, std::vector<UniqueFd> fds);
  // Asks for a new keeper, because this one does not answer.
  void replace_keeper();
  // The first key was created: the state directory records that keys are required, even if the database is lost.
  void require_keys();

  struct Message {
    wire::SupervisorWord word{};
    UniqueFd fd;  // empty: lost, for lack of descriptors or memory
  };
  // The next message; nothing when the supervisor is gone.
  async::Task<std::optional<Message>> receive();

 private:
  void ask_or_log(wire::SupervisorVerb verb);

  boost::asio::any_io_executor executor_;
  UniqueFd socket_;
  const Log& log_;
};

}  // namespace cove::server
