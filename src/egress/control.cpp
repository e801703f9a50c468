#include "egress/control.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>

#include "base/io.hpp"
#include "sys/record.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
using async::Task;
using wire::EgressReply;
using wire::EgressRequest;
using wire::EgressVerb;
using wire::EgressWord;

constexpr std::size_t kMaxPolicyText = 4 << 20;
constexpr std::size_t kMaxAnswers = 4096;

Result<Policy> read_policy(const UniqueFd& memory) {
  if (::lseek(memory.get(), 0, SEEK_SET) != 0) return fail_errno(errno, "read a policy");
  COVE_TRY(const auto text, read_all(memory.get(), kMaxPolicyText));
  boost::system::error_code wrong;
  const auto value = boost::json::parse(text, wrong);
  if (wrong) return fail(Errc::invalid, "network: the policy is no JSON");
  return parse_policy(value, "network");
}

Result<UniqueFd> in_memory(std::string_view text) {
  UniqueFd memory(::memfd_create("inspected", MFD_CLOEXEC));
  if (!memory) return fail_errno(errno, "create a memfd");
  COVE_CHECK(write_all(memory.get(), text));
  if (::lseek(memory.get(), 0, SEEK_SET) != 0) return fail_errno(errno, "rewind a memfd");
  return memory;
}

std::string encode(EgressReply reply, std::string_view text) {
  reply.text_size = static_cast<std::uint32_t>(text.size());
  std::string bytes(sizeof reply, '\0');
  std::memcpy(bytes.data(), &reply, sizeof reply);
  bytes += text;
  return bytes;
}

}  // namespace

Control::Control(Common& common, UniqueFd front)
    : common_(common), front_(std::move(front)), waiting_(common.executor) {
  (void)::fcntl(front_.get(), F_SETFL, ::fcntl(front_.get(), F_GETFL) | O_NONBLOCK);
}

Task<> Control::serve() {
  waiting_.assign(front_.get());
  while (!gone_) {
    EgressRequest request;
    std::vector<UniqueFd> fds;
    const auto size = sys::receive_record(front_.get(), std::as_writable_bytes(std::span(&request, 1)), fds);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      const auto [failed] =
          co_await waiting_.async_wait(asio::posix::descriptor_base::wait_read, asio::as_tuple(asio::use_awaitable));
      if (failed) break;
      continue;
    }
    if (size <= 0) break;
    // A front that does not speak this language is not obeyed.
    if (static_cast<std::size_t>(size) != sizeof request || !request.id.valid()) break;
    handle(request, std::move(fds));
  }
  gone_ = true;
  *alive_ = false;
  waiting_.release();
  for (const auto& [id, egress] : sandboxes_) egress->close();
  sandboxes_.clear();
}

void Control::handle(const EgressRequest& request, std::vector<UniqueFd> fds) {
  Result<> done;
  std::string text;
  switch (request.verb) {
    case EgressVerb::open:
      done = open(request, std::move(fds));
      if (done) text = certificate_of(request.id);
      break;
    case EgressVerb::change:
      done = change(request, std::move(fds));
      if (done) text = certificate_of(request.id);
      break;
    case EgressVerb::close:
      if (const auto found = sandboxes_.find(request.id); found != sandboxes_.end()) {
        found->second->close();
        sandboxes_.erase(found);
      }
      break;
    case EgressVerb::inspect:
      return inspect(request);
    default:
      done = fail(Errc::unsupported, "there is no such verb");
  }
  if (!done)
    return send({.word = EgressWord::failed, .serial = request.serial, .id = request.id}, done.error().message);
  send({.word = EgressWord::done, .serial = request.serial, .id = request.id}, text);
}

Result<> Control::open(const EgressRequest& request, std::vector<UniqueFd> fds) {
  if (fds.size() < 5 || fds.size() > 6)
    return fail(Errc::invalid, fmt::format("open came with {} descriptors instead of 5 or 6", fds.size()));
  if (sandboxes_.size() >= kMaxSandboxes && !sandboxes_.contains(request.id))
    return fail(Errc::over_limit, fmt::format("{} sandboxes have a network already", sandboxes_.size()));
  COVE_TRY(auto policy, read_policy(fds[0]));
  auto egress = std::make_shared<SandboxEgress>(common_, std::move(policy), [this, alive = alive_] {
    if (*alive) flush_soon();
  });
  SandboxEgress::Sockets sockets{.relay4 = std::move(fds[1]),
                                 .relay6 = std::move(fds[2]),
                                 .dns_udp = std::move(fds[3]),
                                 .dns_tcp = std::move(fds[4])};
  if (fds.size() == 6) sockets.proxy = std::move(fds[5]);
  if (auto started = egress->start(std::move(sockets)); !started) {
    egress->close();
    return started;
  }
  auto& place = sandboxes_[request.id];
  if (place) place->close();
  place = std::move(egress);
  return {};
}

Result<> Control::change(const EgressRequest& request, std::vector<UniqueFd> fds) {
  if (fds.size() != 1)
    return fail(Errc::invalid, fmt::format("change came with {} descriptors instead of 1", fds.size()));
  const auto found = sandboxes_.find(request.id);
  if (found == sandboxes_.end()) return fail(Errc::not_found, "this sandbox has no network");
  COVE_TRY(auto policy, read_policy(fds[0]));
  found->second->change(std::move(policy), request.scope == wire::EgressScope::all_connections
                                               ? SandboxEgress::Scope::all_connections
                                               : SandboxEgress::Scope::new_connections);
  return {};
}

std::string Control::certificate_of(const SandboxId& id) const {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end() || !found->second->authority()) return {};
  return boost::json::serialize(boost::json::object{{"ca", found->second->authority()->pem()}});
}

void Control::inspect(const EgressRequest& request) {
  EgressReply reply{.word = EgressWord::failed, .serial = request.serial, .id = request.id};
  const auto found = sandboxes_.find(request.id);
  if (found == sandboxes_.end()) return send(reply, "this sandbox has no network");
  const auto text = boost::json::serialize(found->second->inspect());
  auto memory = in_memory(text);
  if (!memory) return send(reply, memory.error().message);
  reply.word = EgressWord::inspected;
  auto bytes = encode(reply, {});
  reply.text_size = static_cast<std::uint32_t>(text.size());
  std::memcpy(bytes.data(), &reply, sizeof reply);
  answers_.push_back({.bytes = std::move(bytes), .fd = std::move(*memory)});
  flush();
}

void Control::send(EgressReply reply, std::string_view text) {
  answers_.push_back({.bytes = encode(reply, text.substr(0, wire::kMaxEgressText))});
  // Who asks and never listens is no front.
  if (answers_.size() > kMaxAnswers) gone_ = true;
  flush();
}

void Control::flush_soon() {
  if (std::exchange(soon_, true)) return;
  asio::post(common_.executor, [this, alive = alive_] {
    if (!*alive) return;
    soon_ = false;
    flush();
  });
}

// False: it did not go, and must be tried again when the front has room.
bool Control::send_now(const std::string& message, int fd) {
  const std::span<const int> fds(&fd, fd >= 0 ? 1 : 0);
  if (sys::send_record(front_.get(), std::as_bytes(std::span(message)), fds) >= 0) return true;
  if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return false;
  gone_ = true;
  return false;
}

bool Control::send_records() {
  while (true) {
    if (unsent_record_) {
      if (!send_now(unsent_record_->bytes, -1)) return false;
      unsent_record_.reset();
    }
    auto next = sandboxes_.upper_bound(last_);
    for (std::size_t n = 0; n < sandboxes_.size() && !unsent_record_; ++n, ++next) {
      if (next == sandboxes_.end()) next = sandboxes_.begin();
      if (const auto record = next->second->audit.take()) {
        last_ = next->first;
        unsent_record_ = Message{.bytes = encode({.word = EgressWord::decided, .id = next->first}, *record)};
      }
    }
    if (!unsent_record_) return true;
  }
}

void Control::flush() {
  if (blocked_ || gone_) return;
  while (!answers_.empty()) {
    if (!send_now(answers_.front().bytes, answers_.front().fd.get())) break;
    answers_.pop_front();
  }
  if (answers_.empty() && send_records()) return;
  if (gone_) {
    // Whoever waits for the front is told.
    boost::system::error_code ignored;
    waiting_.cancel(ignored);
    return;
  }
  blocked_ = true;
  waiting_.async_wait(asio::posix::descriptor_base::wait_write,
                      [this, alive = alive_](boost::system::error_code failed) {
                        if (failed || !*alive) return;
                        blocked_ = false;
                        flush();
                      });
}

}  // namespace cove::egress
