#include "server/supervisor_link.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "async/readiness.hpp"
#include "sys/record.hpp"

namespace cove::server {

SupervisorLink::SupervisorLink(boost::asio::any_io_executor executor, UniqueFd socket, const Log& log)
    : executor_(std::move(executor)), socket_(std::move(socket)), log_(log) {
  ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
}

Result<> SupervisorLink::ask(const wire::SupervisorRequest& request, std::vector<UniqueFd> fds) {
  std::vector<int> numbers;
  for (const auto& fd : fds) numbers.push_back(fd.get());
  if (sys::send_record(socket_.get(), std::as_bytes(std::span(&request, 1)), numbers) < 0)
    return fail(Errc::unavailable, fmt::format("the supervisor does not answer: {}", std::strerror(errno)));
  return {};
}

void SupervisorLink::ask_or_log(wire::SupervisorVerb verb) {
  if (const auto asked = ask({.verb = verb}, {}); !asked) log_.error(asked.error().message);
}

void SupervisorLink::replace_keeper() {
  log_.error("the keeper does not answer: asking for another");
  ask_or_log(wire::SupervisorVerb::replace_keeper);
}

void SupervisorLink::require_keys() {
  log_.warn("the first key was created: every request needs one from now on");
  ask_or_log(wire::SupervisorVerb::require_keys);
}

async::Task<std::optional<SupervisorLink::Message>> SupervisorLink::receive() {
  async::Readiness readiness(executor_, socket_.get());
  while (co_await readiness.readable()) {
    Message message;
    const auto size =
        sys::receive_record(socket_.get(), std::as_writable_bytes(std::span(&message.word, 1)), message.fd);
    if (size == 0) break;
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    co_return message;
  }
  co_return std::nullopt;
}

}  // namespace cove::server
