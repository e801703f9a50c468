#include "egress/socks.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "egress/byte_stream.hpp"
#include "egress/carry.hpp"
#include "egress/destination.hpp"
#include "egress/dial.hpp"
#include "egress/expiry.hpp"
#include "egress/forward.hpp"
#include "egress/intercept.hpp"
#include "egress/sandbox_egress.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
namespace ip = asio::ip;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr auto kSocksTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::seconds kHandshakePatience{15};
constexpr std::chrono::seconds kSocksDialPatience{20};

enum class Reply : std::uint8_t {
  done = 0,
  failed = 1,
  not_allowed = 2,
  network_unreachable = 3,
  host_unreachable = 4,
  refused = 5,
  no_such_command = 7,
  no_such_address = 8
};

std::string reply_of(Reply reply) {
  return {5, static_cast<char>(reply), 0, 1, 0, 0, 0, 0, 0, 0};
}

Reply reply_of(const Error& error) {
  if (error.code == Errc::denied) return Reply::not_allowed;
  if (error.code == Errc::not_found) return Reply::host_unreachable;
  if (error.sys_errno == ECONNREFUSED) return Reply::refused;
  return error.sys_errno == ENETUNREACH ? Reply::network_unreachable : Reply::host_unreachable;
}

// The first `size` bytes that are not taken yet. Empty: they did not come.
Task<std::string> take(std::shared_ptr<Flow> flow, std::string& begun, std::size_t size) {
  if (const auto has = begun.size(); has < size) {
    begun.resize(size);
    const auto [failed, got] =
        co_await asio::async_read(flow->client, asio::buffer(begun.data() + has, size - has), kSocksTuple);
    if (failed) co_return std::string();
  }
  auto taken = begun.substr(0, size);
  begun.erase(0, size);
  co_return taken;
}

// Where the client wants to go.
struct Wanted {
  std::string host;
  std::optional<ip::address> address{};
  std::uint16_t port = 0;
};

// Nothing: the handshake is malformed, and `reply` says what to answer, if anything.
Task<std::optional<Wanted>> shake_hands(std::shared_ptr<Flow> flow, std::string& begun, std::optional<Reply>& reply) {
  const Expiry expiry(flow->client.get_executor(), Clock::now() + kHandshakePatience,
                      [flow] { flow->cut("socks: no request in time"); });
  const auto greeting = co_await take(flow, begun, 2);
  if (greeting.size() < 2) co_return std::nullopt;
  const auto methods = co_await take(flow, begun, static_cast<unsigned char>(greeting[1]));
  if (methods.find('\0') == std::string::npos) {
    constexpr std::string_view kNoneOfThese = "\x05\xff";
    [[maybe_unused]] const auto told =
        co_await asio::async_write(flow->client, asio::buffer(kNoneOfThese), kSocksTuple);
    co_return std::nullopt;
  }
  constexpr std::string_view kNoAuthentication("\x05\x00", 2);
  const auto [unsent, sent] = co_await asio::async_write(flow->client, asio::buffer(kNoAuthentication), kSocksTuple);
  if (unsent) co_return std::nullopt;
  const auto request = co_await take(flow, begun, 4);
  if (request.size() < 4 || request[0] != 5 || request[2] != 0) co_return std::nullopt;
  reply = Reply::failed;
  Wanted wanted;
  std::size_t size = 0;
  switch (request[3]) {
    case 1:
      size = 4;
      break;
    case 3: {
      const auto length = co_await take(flow, begun, 1);
      if (length.empty() || length[0] == 0) co_return std::nullopt;
      size = static_cast<unsigned char>(length[0]);
      break;
    }
    case 4:
      size = 16;
      break;
    default:
      reply = Reply::no_such_address;
      co_return std::nullopt;
  }
  const auto host = co_await take(flow, begun, size);
  const auto port = co_await take(flow, begun, 2);
  if (host.size() != size || port.size() != 2) co_return std::nullopt;
  wanted.port =
      static_cast<std::uint16_t>((static_cast<unsigned char>(port[0]) << 8) | static_cast<unsigned char>(port[1]));
  if (request[3] == 3) {
    wanted.host = host;
  } else if (request[3] == 1) {
    ip::address_v4::bytes_type bytes{};
    std::memcpy(bytes.data(), host.data(), bytes.size());
    wanted.address = ip::address_v4(bytes);
  } else {
    ip::address_v6::bytes_type bytes{};
    std::memcpy(bytes.data(), host.data(), bytes.size());
    wanted.address = ip::address_v6(bytes);
  }
  if (request[1] != 1 || wanted.port == 0) {
    reply = Reply::no_such_command;
    co_return std::nullopt;
  }
  co_return wanted;
}

}  // namespace

Task<> serve_socks(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string begun) {
  const auto client = std::make_shared<SocketStream>(flow->client);
  std::optional<Reply> reply;
  const auto wanted = co_await shake_hands(flow, begun, reply);
  if (flow->is_cut()) co_return;
  if (!wanted) {
    flow->decision = {.verdict = Verdict::denied, .rule = "malformed socks request"};
    egress->record(*flow);
    auto text = reply ? reply_of(*reply) : std::string();
    co_await last_words(flow, client, std::move(text));
    co_return;
  }
  const bool known = wanted->address ? set_destination(*egress, *flow, *wanted->address, wanted->port)
                                     : set_destination(*egress, *flow, wanted->host, wanted->port);
  if (!known) {
    egress->record(*flow);
    co_await last_words(flow, client, reply_of(Reply::not_allowed));
    co_return;
  }
  const auto dialled = co_await dial(egress, flow, Clock::now() + kSocksDialPatience);
  if (flow->is_cut()) co_return;
  auto text = dialled ? reply_of(Reply::done) : reply_of(reply_of(dialled.error()));
  if (!dialled) {
    co_await last_words(flow, client, std::move(text));
    co_return;
  }
  const auto [unsent, sent] = co_await asio::async_write(flow->client, asio::buffer(text), kSocksTuple);
  if (unsent) co_return flow->cut("the connection was reset");
  if (adds_headers(*egress, *flow))
    co_await intercept(egress, flow, std::move(begun));
  else
    co_await carry(egress, flow, std::move(begun));
}

}  // namespace cove::egress
