#include "sandbox/init_session.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>

namespace cove::sandbox {
namespace {

// A path that is never too long for a socket, whatever the state directory is.
Result<sockaddr_un> address_in(int directory, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = fmt::format("/proc/self/fd/{}/{}", directory, name);
  if (path.size() >= sizeof address.sun_path) return fail(Errc::io, "the name of a control socket is too long");
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

}  // namespace

InitSession::InitSession(boost::asio::any_io_executor executor, async::TaskGroup& tasks, int run_dir, std::string name,
                         Handlers handlers)
    : executor_(std::move(executor)),
      tasks_(tasks),
      run_dir_(run_dir),
      name_(std::move(name)),
      handlers_(std::move(handlers)) {}

Result<UniqueFd> InitSession::listen() {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return fail_errno(errno, "make a control socket");
  COVE_TRY(const auto address, address_in(run_dir_, name_));
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(errno, "bind a control socket");
  if (::listen(listener.get(), 4) != 0) return fail_errno(errno, "listen on a control socket");
  return listener;
}

Result<UniqueFd> InitSession::connect_once(std::chrono::milliseconds lease) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return fail_errno(errno, "make a control connection");
  once_ = true;
  open(UniqueFd(ends[0]), lease);
  return UniqueFd(ends[1]);
}

Result<> InitSession::connect(std::chrono::milliseconds lease) {
  if (once_) return fail(Errc::unavailable, "the connection to the sandbox's init is gone");
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, "make a control connection");
  COVE_TRY(const auto address, address_in(run_dir_, name_));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(errno, "connect to the sandbox's init");
  open(std::move(socket), lease);
  return {};
}

void InitSession::open(UniqueFd socket, std::chrono::milliseconds lease) {
  link_.emplace(std::move(socket));
  link_->lease(lease);
  readiness_ = std::make_shared<async::Readiness>(executor_, link_->fd());
  tasks_.spawn("receive from an init", receive(shared_from_this(), readiness_));
}

void InitSession::close() {
  if (readiness_) readiness_->give_up();
  readiness_.reset();
  link_.reset();
  waiting_to_write_ = false;
  synced_ = false;
}

void InitSession::disconnect() {
  close();
  handlers_.on_disconnected();
}

bool InitSession::alive() const {
  if (!synced()) return false;
  char byte = 0;
  return ::recv(link_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

void InitSession::flush() {
  if (!link_) return;
  link_->flush();
  if (link_->broken()) {
    // Not from here: the caller may be in the middle of using the link.
    boost::asio::post(executor_, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && self->link_ && self->link_->broken()) self->disconnect();
    });
    return;
  }
  if (!link_->wants_write() || waiting_to_write_) return;
  waiting_to_write_ = true;
  readiness_->when_writable([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->waiting_to_write_ = false;
    self->flush();
  });
}

async::Task<> InitSession::receive(std::shared_ptr<InitSession> self, std::shared_ptr<async::Readiness> readiness) {
  while (readiness == self->readiness_ && co_await readiness->readable()) {
    if (readiness != self->readiness_) co_return;
    const auto state = self->link_->receive([&](const wire::Frame& frame) { self->dispatch(frame); });
    if (readiness != self->readiness_) co_return;
    if (state == guest::InitLink::State::closed) {
      self->disconnect();
      co_return;
    }
    self->flush();
  }
}

void InitSession::dispatch(const wire::Frame& frame) {
  const auto complete = once_ ? wire::FrameType::ready : wire::FrameType::synced;
  if (frame.type == complete) {
    synced_ = true;
    handlers_.on_synced();
  } else if (frame.type == wire::FrameType::known) {
    if (const auto known = wire::decode_known(frame.payload)) handlers_.on_known(frame.process, *known);
  } else {
    handlers_.on_frame(frame);
  }
}

}  // namespace cove::sandbox
