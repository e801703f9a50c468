#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "wire/init_messages.hpp"

namespace cove::guest {

// The front's end of one sandbox's control socket. Owns the descriptor, never blocks, and does no waiting of its own:
// whoever owns the loop polls `fd()`, calls `receive` when it is readable and `flush` when it is writable and
// `wants_write()`.
class InitLink {
 public:
  // {our end, init's end}
  static Result<std::pair<InitLink, UniqueFd>> create();
  // To an init that listens.
  explicit InitLink(UniqueFd socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool wants_write() const { return sent_ < outbox_.size(); }
  [[nodiscard]] std::size_t waiting() const { return outbox_.size() - sent_; }

  void spawn(std::uint32_t process, const wire::Spawn& request);
  void input(std::uint32_t process, std::string_view bytes);
  void end_input(std::uint32_t process);
  void acknowledge(std::uint32_t process, wire::Stream stream, std::uint64_t offset);
  void signal(std::uint32_t process, int number);
  void resize(std::uint32_t process, std::uint16_t rows, std::uint16_t columns);
  void kill_everything();
  void kill_tree(std::uint32_t process);
  void replay(std::uint32_t process, std::uint64_t from);
  void forget(std::uint32_t process);
  void limit_output(std::uint32_t process, wire::OutputLimit limit);
  void channel_record(std::uint32_t process, std::string_view record);
  // How long from now the sandbox may live when nobody drives it.
  void lease(std::chrono::milliseconds left);
  // `ends` are kHandoverFds descriptors; they go over with the frame.
  void handover(std::uint32_t process, const wire::Handover& handover, std::vector<UniqueFd> ends);

  enum class State { open, closed };
  // Calls `handle` for every whole frame that has come. `closed`: init is gone, or broke the protocol.
  State receive(const std::function<void(const wire::Frame&)>& handle);
  // Sends what it can. Whether init still lives is for `receive` to say: its last words may be waiting there.
  void flush();
  // Something could not be sent and never will be.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  UniqueFd socket_;
  wire::FrameReader inbox_;
  std::string outbox_;
  std::size_t sent_ = 0;
  // Descriptors that travel with the byte at `offset` of the outbox.
  struct Attachment {
    std::size_t offset;
    std::vector<UniqueFd> fds;
  };
  std::deque<Attachment> attachments_;
  ssize_t send_some();
  void drop_sent();
  bool broken_ = false;
};

}  // namespace cove::guest
