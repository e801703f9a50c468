#pragma once

// For tests of this room: a name server on loopback.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "egress/dns_message.hpp"

namespace cove::egress {

class TestNameServer {
 public:
  explicit TestNameServer(boost::asio::io_context& io)
      : udp_(io, {boost::asio::ip::address_v4::loopback(), 0}),
        tcp_(io, {boost::asio::ip::address_v4::loopback(), udp_.local_endpoint().port()}) {
    boost::asio::co_spawn(io, serve(), boost::asio::detached);
    boost::asio::co_spawn(io, serve_tcp(), boost::asio::detached);
  }

  std::map<std::string, std::vector<std::string>> names;  // an unknown one does not exist
  std::vector<std::string> asked;                         // "ok.test 1"
  bool truncate = false;
  bool silent = false;
  std::function<std::vector<std::string>(const std::string& first)>
      before;  // other datagrams to send first, given the answer

  [[nodiscard]] boost::asio::ip::udp::endpoint endpoint() const { return udp_.local_endpoint(); }

 private:
  static constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

  std::string answer(std::string_view query) {
    const auto parsed = parse_query(query);
    if (!parsed || !std::holds_alternative<DnsQuestion>(*parsed)) return {};
    const auto& question = std::get<DnsQuestion>(*parsed);
    asked.push_back(question.name + " " + std::to_string(static_cast<int>(question.type)));
    const auto found = names.find(question.name);
    if (found == names.end()) return encode_answer(question, DnsCode::no_such_name, {});
    std::vector<boost::asio::ip::address> addresses;
    for (const auto& text : found->second) addresses.push_back(boost::asio::ip::make_address(text));
    return encode_answer(question, DnsCode::none, addresses);
  }

  async::Task<> serve() {
    std::array<char, 2048> buffer{};
    boost::asio::ip::udp::endpoint peer;
    while (true) {
      const auto [failed, size] = co_await udp_.async_receive_from(boost::asio::buffer(buffer), peer, kTuple);
      if (failed) co_return;
      auto text = answer({buffer.data(), size});
      if (silent) continue;
      if (truncate) {
        text.resize(12 + size - 12);
        text[2] = static_cast<char>(text[2] | 2);
        text[6] = text[7] = 0;
      }
      if (before) {
        for (const auto& other : before(text)) co_await udp_.async_send_to(boost::asio::buffer(other), peer, kTuple);
      }
      co_await udp_.async_send_to(boost::asio::buffer(text), peer, kTuple);
    }
  }

  async::Task<> serve_tcp() {
    while (true) {
      auto [failed, socket] = co_await tcp_.async_accept(kTuple);
      if (failed) co_return;
      std::array<unsigned char, 2> size{};
      co_await boost::asio::async_read(socket, boost::asio::buffer(size), kTuple);
      std::string query((std::size_t{size[0]} << 8) + size[1], '\0');
      co_await boost::asio::async_read(socket, boost::asio::buffer(query), kTuple);
      const auto text = answer(query);
      std::string framed{static_cast<char>(text.size() >> 8), static_cast<char>(text.size() & 0xff)};
      framed += text;
      co_await boost::asio::async_write(socket, boost::asio::buffer(framed), kTuple);
    }
  }

  boost::asio::ip::udp::socket udp_;
  boost::asio::ip::tcp::acceptor tcp_;
};

}  // namespace cove::egress
