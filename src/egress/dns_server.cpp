#include "egress/dns_server.hpp"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "async/deadline.hpp"
#include "egress/dns_message.hpp"
#include "egress/expiry.hpp"
#include "egress/host_name.hpp"
#include "egress/port_groups.hpp"
#include "egress/sandbox_egress.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
namespace ip = asio::ip;
using async::Task;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kLongestQuery = 1024;
constexpr double kQueriesPerSecond = 1000;
constexpr std::size_t kMaxStreams = 16;
constexpr std::chrono::seconds kStreamPatience{10};

bool is_localhost(std::string_view name) {
  return name == "localhost" || name.ends_with(".localhost");
}

std::string answer_question(SandboxEgress& egress, const DnsQuestion& question) {
  if (!question.internet) return encode_answer(question, DnsCode::refused, {});
  const auto name = canonical_ascii_name(question.name);
  if (!name) return encode_answer(question, DnsCode::no_such_name, {});
  // The sandbox's own (RFC 6761).
  if (is_localhost(*name))
    return encode_answer(question, DnsCode::none, {ip::address_v4::loopback(), ip::address_v6::loopback()});
  const auto policy = egress.policy();
  const auto decision = decide_name(*policy, *name, std::nullopt);
  const bool allowed = decision.verdict == Verdict::allowed;
  if (!allowed) {
    ++egress.counters.dns_denied;
    egress.refusals.add(*name, 0, decision.rule, Clock::now());
  }
  egress.audit.looked_up(*name, decision, Clock::now());
  if (question.type != DnsType::a) return encode_answer(question, DnsCode::none, {});
  if (!allowed) return encode_answer(question, DnsCode::none, {ip::address_v4(kUnroutedAddress)});
  const auto address = egress.names.address_of(*name, block_of(*policy, *name), Clock::now());
  if (!address) return encode_answer(question, DnsCode::server_failure, {});
  return encode_answer(question, DnsCode::none, {*address});
}

// Several messages, each behind its size (RFC 1035, 4.2.2).
Task<> serve_stream(std::shared_ptr<SandboxEgress> egress, ip::tcp::socket socket,
                    std::shared_ptr<std::size_t> streams) {
  struct Leaving {
    std::size_t& streams;
    ~Leaving() { --streams; }
  } const leaving{*streams};
  Expiry expiry(socket.get_executor(), Clock::now() + kStreamPatience, [&socket] {
    error_code ignored;
    socket.close(ignored);
  });
  while (true) {
    std::array<unsigned char, 2> size{};
    const auto [unsized, two] = co_await asio::async_read(socket, asio::buffer(size), kTuple);
    if (unsized) co_return;
    std::string message((std::size_t{size[0]} << 8) + size[1], '\0');
    if (message.size() > kLongestQuery) co_return;
    const auto [unread, whole] = co_await asio::async_read(socket, asio::buffer(message), kTuple);
    if (unread) co_return;
    const auto answer = answer_lookup(*egress, message);
    if (answer.empty()) co_return;
    std::string framed{static_cast<char>(answer.size() >> 8), static_cast<char>(answer.size() & 0xff)};
    framed += answer;
    const auto [unsent, sent] = co_await asio::async_write(socket, asio::buffer(framed), kTuple);
    if (unsent) co_return;
    expiry.postpone(Clock::now() + kStreamPatience);
  }
}

}  // namespace

std::string answer_lookup(SandboxEgress& egress, std::string_view message) {
  ++egress.counters.dns_queries;
  const auto parsed = parse_query(message);
  if (!parsed) return {};
  if (const auto* malformed = std::get_if<DnsMalformed>(&*parsed)) return encode_answer(*malformed);
  return answer_question(egress, std::get<DnsQuestion>(*parsed));
}

Task<> serve_dns(std::shared_ptr<SandboxEgress> egress, ip::udp::socket& socket) {
  std::array<char, kLongestQuery> buffer{};
  TokenBucket rate(kQueriesPerSecond, Clock::now());
  while (socket.is_open()) {
    ip::udp::endpoint peer;
    const auto [failed, size] = co_await socket.async_receive_from(asio::buffer(buffer), peer, kTuple);
    if (failed == asio::error::operation_aborted || failed == asio::error::bad_descriptor) co_return;
    if (failed) continue;  // an answer that nobody took comes back as an error
    if (rate.tokens(Clock::now()) < 1) {
      ++egress->counters.dns_dropped;
      continue;
    }
    rate.spend(1);
    const auto answer = answer_lookup(*egress, {buffer.data(), size});
    if (answer.empty()) continue;
    error_code unsent;  // who asks faster than it reads goes without
    socket.send_to(asio::buffer(answer), peer, 0, unsent);
  }
}

Task<> serve_dns_streams(std::shared_ptr<SandboxEgress> egress, ip::tcp::acceptor& acceptor) {
  const auto streams = std::make_shared<std::size_t>(0);
  TokenBucket rate(kQueriesPerSecond / 10, Clock::now());
  while (acceptor.is_open()) {
    if (rate.tokens(Clock::now()) < 1) co_await async::sleep_until(rate.when(1, Clock::now()));
    rate.spend(1);
    auto [failed, socket] = co_await acceptor.async_accept(kTuple);
    if (failed == asio::error::operation_aborted || failed == asio::error::bad_descriptor) co_return;
    if (failed) {
      co_await async::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    if (*streams >= kMaxStreams) continue;
    ++*streams;
    egress->tasks.spawn("dns stream", serve_stream(egress, std::move(socket), streams));
  }
}

}  // namespace cove::egress
