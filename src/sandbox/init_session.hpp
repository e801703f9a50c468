#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "async/readiness.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "guest/init_link.hpp"
#include "wire/init_messages.hpp"

namespace cove::sandbox {

// The connection to the init of one sandbox. After each connect() init first reports the processes it has (known),
// then that the report is complete (synced); after connect_once() it has none, and is complete when it is ready.
class InitSession : public std::enable_shared_from_this<InitSession> {
 public:
  // Called from the loop, never after close().
  struct Handlers {
    std::function<void(std::uint32_t number, const wire::Known& known)> on_known;
    std::function<void()> on_synced;
    std::function<void(const wire::Frame& frame)> on_frame;  // of one process
    std::function<void()> on_disconnected;                   // may connect() again
  };

  // The control socket is `name` in `run_dir`, which is borrowed.
  InitSession(boost::asio::any_io_executor executor, async::TaskGroup& tasks, int run_dir, std::string name,
              Handlers handlers);

  // Makes the control socket, for init to accept on. A connect() before init does so waits in its queue.
  Result<UniqueFd> listen();
  // Init's end of the one connection to a sandbox that no later server looks for. It has no name, cannot be made again,
  // and init ends with it.
  Result<UniqueFd> connect_once(std::chrono::milliseconds lease);
  // `lease`: how long the sandbox may live from now on without a server.
  Result<> connect(std::chrono::milliseconds lease);
  void close();

  [[nodiscard]] bool connected() const { return link_.has_value(); }
  [[nodiscard]] bool synced() const { return connected() && synced_; }
  // Asks the kernel too: init's end may not have been received yet.
  [[nodiscard]] bool alive() const;

  // Where commands are queued; null while not connected. flush() sends them.
  [[nodiscard]] guest::InitLink* link() { return link_ ? &*link_ : nullptr; }
  void flush();

 private:
  static async::Task<> receive(std::shared_ptr<InitSession> self, std::shared_ptr<async::Readiness> readiness);
  void dispatch(const wire::Frame& frame);
  void disconnect();
  void open(UniqueFd socket, std::chrono::milliseconds lease);

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  int run_dir_;
  std::string name_;
  Handlers handlers_;
  std::optional<guest::InitLink> link_;
  std::shared_ptr<async::Readiness> readiness_;  // of this connection; a task that holds another one is over
  bool waiting_to_write_ = false;
  bool synced_ = false;
  bool once_ = false;
};

}  // namespace cove::sandbox
