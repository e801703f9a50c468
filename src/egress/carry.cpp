#include "egress/carry.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "async/deadline.hpp"
#include "egress/client_hello.hpp"
#include "egress/expiry.hpp"
#include "egress/host_name.hpp"
#include "egress/sandbox_egress.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
namespace ip = asio::ip;
using async::Task;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::uint16_t kHttps = 443;
constexpr std::chrono::seconds kHelloPatience{10};
constexpr std::size_t kTurn = 1 << 20;  // bytes of one direction before others have theirs

enum class Direction : std::uint8_t { in, out };

// A pipe for as long as there is something in it.
class Lease {
 public:
  explicit Lease(PipePool& pool) : pool_(pool) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  bool take() {
    if (!pipe_) pipe_ = pool_.take();
    return pipe_.has_value();
  }
  void give_back() {
    if (pipe_) pool_.give_back(std::move(*pipe_));
    pipe_.reset();
  }
  [[nodiscard]] int read_end() const { return pipe_->read_end.get(); }
  [[nodiscard]] int write_end() const { return pipe_->write_end.get(); }

 private:
  PipePool& pool_;
  std::optional<PipePool::Pipe> pipe_;
};

// The program is told why, when it asks.
void stop_spending(SandboxEgress& egress, Flow& flow) {
  const auto& subject = flow.subject;
  if (!subject.name.empty() || subject.address)
    egress.refusals.add(subject.name.empty() ? subject.address->to_string() : subject.name, subject.port, "caps.bytes",
                        Clock::now());
  flow.cut("caps.bytes");
}

ssize_t move_bytes(int from, int to, std::size_t size) {
  return ::splice(from, nullptr, to, nullptr, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

// Everything that is in the pipe. False: the flow was cut.
Task<bool> drain(std::shared_ptr<Flow> flow, ip::tcp::socket& to, const Lease& pipe, std::size_t size) {
  while (size > 0) {
    if (!to.is_open()) co_return false;
    const auto moved = move_bytes(pipe.read_end(), to.native_handle(), size);
    if (moved > 0) {
      size -= static_cast<std::size_t>(moved);
    } else if (moved < 0 && errno == EAGAIN) {
      const auto [failed] = co_await to.async_wait(ip::tcp::socket::wait_write, kTuple);
      if (failed) co_return false;
    } else {
      flow->cut("the other side is gone");
      co_return false;
    }
  }
  co_return true;
}

// One direction to its end, which the other side is told of.
Task<> pump(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, Direction direction) {
  auto& from = direction == Direction::out ? flow->client : flow->upstream;
  auto& to = direction == Direction::out ? flow->upstream : flow->client;
  auto& counted = direction == Direction::out ? flow->bytes_out : flow->bytes_in;
  Lease pipe(egress->common.pipes);
  std::size_t turn = 0;
  while (from.is_open() && to.is_open()) {
    const auto allowed = egress->meter.allowance(PipePool::kPipeSize, Clock::now());
    if (allowed.spent) co_return stop_spending(*egress, *flow);
    if (allowed.bytes == 0) {
      co_await async::sleep_until(allowed.again);
      continue;
    }
    if (!pipe.take()) {
      flow->cut("no descriptor for a pipe");
      co_return;
    }
    const auto size = move_bytes(from.native_handle(), pipe.write_end(), allowed.bytes);
    if (size > 0) {
      const auto bytes = static_cast<std::size_t>(size);
      egress->meter.count(bytes);
      counted += bytes;
      turn += bytes;
      if (!co_await drain(flow, to, pipe, bytes)) co_return;
      if (turn >= kTurn) {
        turn = 0;
        co_await asio::post(from.get_executor(), asio::use_awaitable);
      }
      continue;
    }
    pipe.give_back();
    if (size == 0) {
      error_code ignored;
      to.shutdown(ip::tcp::socket::shutdown_send, ignored);
      co_return;
    }
    if (errno != EAGAIN) {
      flow->cut("the connection was reset");
      co_return;
    }
    const auto [failed] = co_await from.async_wait(ip::tcp::socket::wait_read, kTuple);
    if (failed) co_return;
  }
}

Task<> pump_in(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow) {
  struct Done {
    Flow& flow;
    ~Done() {
      flow.in_done = true;
      flow.changed.notify_all();
    }
  } const done{*flow};
  co_await pump(egress, flow, Direction::in);
}

// Whether what a client said first is fit to pass. The rule that says no, or "".
std::string why_not(const Policy& policy, const AuditSubject& subject, const ClientHello& hello) {
  if (hello.state == ClientHello::State::malformed) return "sni: the client hello is malformed";
  if (hello.state == ClientHello::State::not_tls)
    return !subject.name.empty() && subject.port == kHttps ? "sni: port 443 without TLS" : "";
  // Who names no host gets what the address serves by itself, and that address is one of the name that was judged.
  if (!hello.server_name) return "";
  const auto name = canonical_ascii_name(*hello.server_name);
  if (!name) return "sni: the name is malformed";
  if (!subject.name.empty()) return *name == subject.name ? "" : fmt::format("sni: {} is not {}", *name, subject.name);
  // An address was dialled as such. What is denied by name is denied this way too.
  const auto decision = decide_name(policy, *name, subject.port);
  return decision.rule.starts_with("deny ") ? "sni: " + decision.rule : "";
}

// What was read of the client before the bytes went by themselves.
Task<bool> send_first(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string said) {
  if (said.empty()) co_return true;
  if (!co_await spend(egress, flow, said.size())) co_return false;
  flow->bytes_out += said.size();
  const auto [unsent, sent] = co_await asio::async_write(flow->upstream, asio::buffer(said), kTuple);
  if (unsent) flow->cut("the other side is gone");
  co_return !unsent;
}

// Passes on what the client says first, if it may pass. False: the flow has ended.
Task<bool> screen(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string said) {
  auto hello = read_client_hello(said);
  std::optional<Expiry> expiry;
  while (hello.state == ClientHello::State::more) {
    const auto begun = said.size();
    if (begun > 0 && !expiry)
      expiry.emplace(flow->client.get_executor(), Clock::now() + kHelloPatience,
                     [flow] { flow->cut("sni: no client hello in time"); });
    if (begun > kLongestClientHello) {
      egress->refuse(*flow, {.verdict = Verdict::denied, .rule = "sni: the client hello is too long"});
      co_return false;
    }
    said.resize(begun + 4096);
    const auto [failed, size] = co_await flow->client.async_read_some(asio::buffer(said.data() + begun, 4096), kTuple);
    said.resize(begun + size);
    if (failed == asio::error::eof) break;
    if (failed) {
      flow->cut("the connection was reset");
      co_return false;
    }
    hello = read_client_hello(said);
  }
  expiry.reset();
  if (flow->is_cut()) co_return false;
  const auto why = said.empty() ? std::string() : why_not(*egress->policy(), flow->subject, hello);
  if (!why.empty()) {
    flow->recorded = false;
    egress->refuse(*flow, {.verdict = Verdict::denied, .rule = why});
    co_return false;
  }
  co_return co_await send_first(egress, flow, std::move(said));
}

}  // namespace

Task<bool> spend(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::size_t bytes) {
  while (!flow->is_cut()) {
    const auto allowed = egress->meter.allowance(bytes, Clock::now());
    if (allowed.spent || (allowed.bytes > 0 && !egress->meter.take_whole(bytes))) {
      stop_spending(*egress, *flow);
      break;
    }
    if (allowed.bytes > 0) co_return true;
    co_await async::sleep_until(allowed.again);
  }
  co_return false;
}

Task<> carry(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string first) {
  egress->tasks.spawn("flow", pump_in(egress, flow));
  bool going = true;
  const auto policy = egress->policy();
  // Nothing is compared where nobody could be meant but the address.
  if (policy->check_sni && (!flow->subject.name.empty() || !policy->deny.empty())) {
    going = co_await screen(egress, flow, std::move(first));
  } else {
    going = co_await send_first(egress, flow, std::move(first));
  }
  if (going) co_await pump(egress, flow, Direction::out);
  while (!flow->in_done) co_await flow->changed.wait();
}

}  // namespace cove::egress
