#include "guest/init_link.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "sys/record.hpp"

namespace cove::guest {
namespace {

constexpr std::size_t kKeptCapacity = 256U << 10;  // a burst is no reason to keep its memory

}  // namespace

Result<std::pair<InitLink, UniqueFd>> InitLink::create() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  return std::pair(InitLink(UniqueFd(ends[0])), UniqueFd(ends[1]));
}

void InitLink::spawn(std::uint32_t process, const wire::Spawn& request) {
  wire::append_frame(outbox_, wire::FrameType::spawn, process, wire::encode(request));
}

void InitLink::input(std::uint32_t process, std::string_view bytes) {
  wire::append_frame(outbox_, wire::FrameType::input, process, bytes);
}

void InitLink::end_input(std::uint32_t process) {
  wire::append_frame(outbox_, wire::FrameType::input_end, process, {});
}

void InitLink::acknowledge(std::uint32_t process, wire::Stream stream, std::uint64_t offset) {
  wire::append_frame(outbox_, wire::FrameType::acknowledge, process,
                     wire::encode(wire::Acknowledge{.stream = stream, .offset = offset}));
}

void InitLink::signal(std::uint32_t process, int number) {
  wire::append_frame(outbox_, wire::FrameType::signal, process,
                     wire::encode_number(static_cast<std::uint64_t>(number)));
}

void InitLink::resize(std::uint32_t process, std::uint16_t rows, std::uint16_t columns) {
  wire::append_frame(outbox_, wire::FrameType::resize, process,
                     wire::encode_number((static_cast<std::uint64_t>(rows) << 16) | columns));
}

void InitLink::kill_everything() {
  wire::append_frame(outbox_, wire::FrameType::kill_everything, 0, {});
}

void InitLink::kill_tree(std::uint32_t process) {
  wire::append_frame(outbox_, wire::FrameType::kill_tree, process, {});
}

void InitLink::replay(std::uint32_t process, std::uint64_t from) {
  wire::append_frame(outbox_, wire::FrameType::replay, process, wire::encode_number(from));
}

void InitLink::forget(std::uint32_t process) {
  wire::append_frame(outbox_, wire::FrameType::forget, process, {});
}

void InitLink::limit_output(std::uint32_t process, wire::OutputLimit limit) {
  wire::append_frame(outbox_, wire::FrameType::limit_output, process, wire::encode(limit));
}

void InitLink::channel_record(std::uint32_t process, std::string_view record) {
  wire::append_frame(outbox_, wire::FrameType::channel_record, process, record);
}

void InitLink::lease(std::chrono::milliseconds left) {
  wire::append_frame(outbox_, wire::FrameType::lease, 0,
                     wire::encode_number(static_cast<std::uint64_t>(std::max<std::int64_t>(1, left.count()))));
}

void InitLink::handover(std::uint32_t process, const wire::Handover& handover, std::vector<UniqueFd> ends) {
  attachments_.push_back({.offset = outbox_.size(), .fds = std::move(ends)});
  wire::append_frame(outbox_, wire::FrameType::handover, process, wire::encode(handover));
}

// Up to the next byte that has something to carry.
ssize_t InitLink::send_some() {
  std::vector<int> fds;
  auto next = attachments_.begin();
  if (next != attachments_.end() && next->offset == sent_) {
    for (const auto& fd : next->fds) fds.push_back(fd.get());
    ++next;
  }
  const auto end = next == attachments_.end() ? outbox_.size() : next->offset;
  const auto bytes = std::string_view(outbox_).substr(sent_, end - sent_);
  const auto n = fds.empty() ? ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                             : sys::send_record(socket_.get(), std::as_bytes(std::span(bytes)), fds);
  if (n > 0 && !fds.empty()) attachments_.pop_front();
  return n;
}

void InitLink::drop_sent() {
  for (auto& attachment : attachments_) attachment.offset -= sent_;
  outbox_.erase(0, std::exchange(sent_, 0));
}

InitLink::State InitLink::receive(const std::function<void(const wire::Frame&)>& handle) {
  [[clang::uninitialized]] std::array<char, 65536> chunk;  // to clear it takes longer than to read a message
  // Plain recv: the kernel throws away any descriptors sent along.
  const auto n = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? State::open : State::closed;
  if (n == 0) return State::closed;
  inbox_.append({chunk.data(), static_cast<std::size_t>(n)});
  while (const auto frame = inbox_.next()) handle(*frame);
  return inbox_.broken() ? State::closed : State::open;
}

void InitLink::flush() {
  // After a hole nothing may follow: the end of an input without its bytes would look like a whole one.
  while (!broken_ && sent_ < outbox_.size()) {
    const auto n = send_some();
    if (n < 0 && errno == EINTR) continue;
    // ENOBUFS, ENOMEM: the host has no memory for it at this moment, which passes.
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
      drop_sent();
      return;
    }
    if (n < 0) {  // init is gone; what it said before that is still to be read
      broken_ = true;
      break;
    }
    sent_ += static_cast<std::size_t>(n);
  }
  outbox_.clear();
  attachments_.clear();
  if (outbox_.capacity() > kKeptCapacity) outbox_.shrink_to_fit();
  sent_ = 0;
}

}  // namespace cove::guest
