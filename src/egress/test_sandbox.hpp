#pragma once

// For tests of this room: a sandbox whose sockets are on this machine's loopback, and servers for it to reach.

#include <gtest/gtest.h>
#include <signal.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/json.hpp>
#include <string>
#include <vector>

#include "async/deadline.hpp"
#include "egress/dns_server.hpp"
#include "egress/sandbox_egress.hpp"
#include "egress/test_loop.hpp"
#include "egress/test_name_server.hpp"

namespace cove::egress {

inline constexpr auto kTestTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

struct SandboxTest : testing::Test {
  using tcp = boost::asio::ip::tcp;
  using udp = boost::asio::ip::udp;

  SandboxTest() { ::signal(SIGPIPE, SIG_IGN); }
  ~SandboxTest() override {
    if (egress) egress->close();
    io.restart();
    io.run_for(std::chrono::milliseconds(50));
  }

  static Policy policy_of(std::string_view text) { return parse_policy(boost::json::parse(text), "network").value(); }

  void open(std::string_view policy) {
    egress = std::make_shared<SandboxEgress>(common, policy_of(policy), [] {});
    SandboxEgress::Sockets sockets{.relay4 = listener(relay),
                                   .dns_udp = UniqueFd(dns.release()),
                                   .dns_tcp = listener(dns_streams),
                                   .proxy = listener(proxy)};
    ASSERT_TRUE(egress->start(std::move(sockets)));
  }

  UniqueFd listener(tcp::endpoint& where) {
    tcp::acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
    where = acceptor.local_endpoint();
    return UniqueFd(acceptor.release());
  }

  // A server for one connection after the other.
  template <typename Serve>
  std::uint16_t serve(Serve serve_one) {
    auto acceptor = std::make_shared<tcp::acceptor>(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    const auto port = acceptor->local_endpoint().port();
    auto loop = [](std::shared_ptr<tcp::acceptor> listening, Serve each, SandboxTest* self) -> async::Task<> {
      while (true) {
        auto [failed, socket] = co_await listening->async_accept(kTestTuple);
        if (failed) co_return;
        ++self->accepted;
        boost::asio::co_spawn(self->io, each(std::move(socket)), boost::asio::detached);
      }
    };
    boost::asio::co_spawn(io, loop(acceptor, std::move(serve_one), this), boost::asio::detached);
    return port;
  }
  static async::Task<> echo(tcp::socket socket) {
    std::array<char, 65536> buffer{};
    while (true) {
      const auto [failed, size] = co_await socket.async_read_some(boost::asio::buffer(buffer), kTestTuple);
      if (failed) co_return;
      const auto [unsent, sent] =
          co_await boost::asio::async_write(socket, boost::asio::buffer(buffer.data(), size), kTestTuple);
      if (unsent) co_return;
    }
  }

  // The address that a program in the sandbox gets for a name.
  std::string look_up(const std::string& name, DnsType type = DnsType::a) {
    const auto answer = answer_lookup(*egress, encode_query(1, name, type));
    const auto reply = parse_reply(answer, 1, name, type);
    if (!reply) return "no reply";
    if (reply->code != DnsCode::none) return fmt::format("code {}", static_cast<int>(reply->code));
    return reply->addresses.empty() ? "" : reply->addresses.front().to_string();
  }

  // As a program that dials `address`, which the kernel redirects.
  tcp::socket dial(const std::string& address, std::uint16_t port) {
    meant = tcp::endpoint(boost::asio::ip::make_address(address), port);
    tcp::socket socket(io);
    socket.connect(relay);
    return socket;
  }

  // Writes, ends its side, and reads to the end: what came, or the error.
  static async::Task<std::string> exchange(tcp::socket& socket, std::string text) {
    if (!text.empty()) co_await boost::asio::async_write(socket, boost::asio::buffer(text), kTestTuple);
    boost::system::error_code ignored;
    socket.shutdown(tcp::socket::shutdown_send, ignored);
    std::string answer;
    std::array<char, 65536> buffer{};
    while (true) {
      const auto [failed, size] = co_await socket.async_read_some(boost::asio::buffer(buffer), kTestTuple);
      answer.append(buffer.data(), size);
      if (failed == boost::asio::error::eof) co_return answer;
      if (failed) co_return "error: " + failed.message();
    }
  }
  static async::Task<std::string> read_exactly(tcp::socket& socket, std::size_t size) {
    std::string text(size, '\0');
    const auto [failed, got] = co_await boost::asio::async_read(socket, boost::asio::buffer(text), kTestTuple);
    co_return failed ? "error: " + failed.message() : text;
  }
  std::string talk(tcp::socket& socket, const std::string& text) { return run(io, exchange(socket, text)); }
  void pause(int milliseconds = 20) { run(io, async::sleep_for(std::chrono::milliseconds(milliseconds))); }

  std::vector<boost::json::object> records() {
    std::vector<boost::json::object> list;
    while (const auto text = egress->audit.take()) list.push_back(boost::json::parse(*text).as_object());
    return list;
  }
  // "connect ok.test 127.0.0.1 denied private address" of those that are not lookups
  std::vector<std::string> told(std::string_view event = "decided") {
    std::vector<std::string> list;
    for (const auto& record : records()) {
      if (!record.contains("kind") || record.at("kind") == "dns" || record.at("event").as_string() != event) continue;
      const auto text = [&record](std::string_view name) { return std::string(record.at(name).as_string()); };
      list.push_back(
          fmt::format("{} {} {} {} {}", text("kind"), text("name"), text("address"), text("verdict"), text("rule")));
    }
    return list;
  }

  boost::asio::io_context io{1};
  TestNameServer names{io};
  tcp::endpoint meant;
  Common common{.executor = io.get_executor(),
                .resolver = DnsClient(io.get_executor(),
                                      {.servers = {names.endpoint()}, .patience = std::chrono::milliseconds(200)}),
                .original_destination = [this](int) -> Result<tcp::endpoint> { return meant; }};
  udp::socket dns{io, {boost::asio::ip::address_v4::loopback(), 0}};
  udp::endpoint dns_where = dns.local_endpoint();
  tcp::endpoint relay;
  tcp::endpoint dns_streams;
  tcp::endpoint proxy;
  std::size_t accepted = 0;
  std::shared_ptr<SandboxEgress> egress;
};

}  // namespace cove::egress
