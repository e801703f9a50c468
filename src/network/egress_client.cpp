#include "network/egress_client.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/io.hpp"
#include "sys/record.hpp"

namespace cove::network {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{10};
constexpr std::size_t kMaxText = 4U << 20;

}  // namespace

void EgressClient::connect(UniqueFd socket) {
  lose();
  socket_ = std::move(socket);
  ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  readiness_ = std::make_shared<async::Readiness>(executor_, socket_.get());
  tasks_.spawn("hear the egress process", listen());
}

void EgressClient::lose() {
  if (readiness_) readiness_->give_up();
  readiness_.reset();
  socket_.reset();
  for (auto& [serial, pending] : std::exchange(pending_, {})) {
    pending->answer.emplace(fail(Errc::unavailable, "the egress process ended during this request"));
    pending->answered.notify_all();
  }
}

async::Task<> EgressClient::listen() {
  const auto mine = readiness_;  // a new process brings a new one
  std::array<char, sizeof(wire::EgressReply) + wire::kMaxEgressText> buffer;
  while (mine == readiness_ && co_await mine->readable()) {
    while (mine == readiness_) {
      UniqueFd memory;
      const auto n = sys::receive_record(socket_.get(), std::as_writable_bytes(std::span(buffer)), memory);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (n <= 0) {
        lose();
        break;
      }
      take({buffer.data(), static_cast<std::size_t>(n)}, std::move(memory));
    }
  }
}

// A long text comes in memory of its own.
void EgressClient::take(std::string_view message, UniqueFd memory) {
  wire::EgressReply reply;
  if (message.size() < sizeof reply) return;
  std::memcpy(&reply, message.data(), sizeof reply);
  std::string text(message.substr(sizeof reply));
  if (memory) text = read_all(memory.get(), kMaxText).value_or("");
  if (text.size() != reply.text_size) return;
  if (reply.word == wire::EgressWord::decided) return on_decided_(reply.id, text);
  const auto found = pending_.find(reply.serial);
  if (found == pending_.end()) return;
  const auto pending = std::move(found->second);
  pending_.erase(found);
  if (reply.word == wire::EgressWord::failed)
    pending->answer.emplace(fail(Errc::conflict, text));
  else
    pending->answer.emplace(text);
  pending->answered.notify_all();
}

async::Task<Result<std::string>> EgressClient::ask(wire::EgressRequest request, std::vector<UniqueFd> fds) {
  if (!socket_) co_return fail(Errc::unavailable, "the egress process is being restarted: try again");
  request.serial = next_serial_++;
  if (next_serial_ == 0) next_serial_ = 1;
  const auto pending = std::make_shared<Pending>(executor_);
  pending_.emplace(request.serial, pending);
  std::vector<int> numbers;
  for (const auto& fd : fds) numbers.push_back(fd.get());
  if (sys::send_record(socket_.get(), std::as_bytes(std::span(&request, 1)), numbers) < 0) {
    pending_.erase(request.serial);
    co_return fail_errno(errno, "tell the egress process");
  }
  const auto until = Clock::now() + kPatience;
  while (!pending->answer && Clock::now() < until) co_await pending->answered.wait_until(until);
  if (!pending->answer) {
    pending_.erase(request.serial);
    co_return fail(Errc::unavailable, "the egress process does not answer");
  }
  co_return std::move(*pending->answer);
}

}  // namespace cove::network
