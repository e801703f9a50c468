#include "http/test_server.hpp"

namespace cove::http {
namespace {

using namespace testing_support;

const std::string kHandshake =
    "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n";

enum class Mask { yes, no };

// One client frame; `first` is FIN, RSV and opcode.
std::string frame(unsigned first, std::string_view payload, Mask mask = Mask::yes) {
  std::string out(1, static_cast<char>(first));
  const unsigned bit = mask == Mask::yes ? 0x80 : 0;
  if (payload.size() < 126) {
    out += static_cast<char>(bit | payload.size());
  } else if (payload.size() < 65536) {
    out += static_cast<char>(bit | 126);
    out += static_cast<char>(payload.size() >> 8);
    out += static_cast<char>(payload.size() & 0xff);
  } else {
    out += static_cast<char>(bit | 127);
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(payload.size() >> shift & 0xff);
  }
  if (mask == Mask::yes) out += std::string(4, '\0');  // the mask that changes nothing
  out += payload;
  return out;
}

class HttpWebSocket : public ServerTest {
 protected:
  HttpWebSocket() {
    router_.add(verb::get, "/ws", [this](Exchange& exchange) { return echo(exchange); });
    router_.add(verb::get, "/flood", [this](Exchange& exchange) { return flood(exchange); });
  }
  Task<> echo(Exchange& exchange) {
    auto socket = co_await exchange.accept_websocket();
    if (!socket) co_return;
    ++opened_;
    for (;;) {
      auto message = co_await (*socket)->read();
      if (!message) break;
      if (message->data == "bye") {
        co_await (*socket)->close(4001, "as you wish");
        break;
      }
      Result<> sent;
      if (message->text) {
        sent = co_await (*socket)->send_text(message->data);
      } else {
        sent = co_await (*socket)->send_binary(message->data);
      }
      if (!sent) break;
    }
    ++closed_;
  }
  Task<> flood(Exchange& exchange) {
    auto socket = co_await exchange.accept_websocket();
    if (!socket) co_return;
    const std::string block(64 << 10, 'x');
    Result<> ok;
    while (ok) ok = co_await (*socket)->send_binary(block);
    ++closed_;
  }
  std::atomic<int> opened_ = 0;
  std::atomic<int> closed_ = 0;
};

TEST_F(HttpWebSocket, EchoesAndCloses) {
  start();
  Client client(port_);
  client.send(kHandshake + "\r\n");
  const auto reply = client.read();
  EXPECT_EQ(reply.status, 101);
  EXPECT_TRUE(reply.headers.contains("x-request-id"));
  EXPECT_EQ(reply.headers.at("server"), "cove");
  client.send(frame(0x81, "hello"));
  EXPECT_EQ(client.read_bytes(7), "\x81\x05hello");
  client.send(frame(0x02, std::string("a\0", 2)) + frame(0x80, "b"));
  EXPECT_EQ(client.read_bytes(5), std::string("\x82\x03"
                                              "a\0b",
                                              5));
  client.send(frame(0x89, "ping"));
  EXPECT_EQ(client.read_bytes(6), "\x8a\x04ping");
  client.send(frame(0x81, "bye"));
  EXPECT_EQ(client.read_bytes(15), std::string("\x88\x0d\x0f\xa1", 4) + "as you wish");
  client.send(frame(0x88, "\x0f\xa1"));
  EXPECT_TRUE(client.at_end());
  EXPECT_TRUE(eventually([&] { return closed_ == 1 && connections() == 0; }));
  EXPECT_EQ(records().front().status, 101U);
}

struct Row {
  const char* name;
  std::string sent;
  int close_code;
};
class BadFrames : public HttpWebSocket, public testing::WithParamInterface<Row> {};

TEST_P(BadFrames, AreAnsweredByAClose) {
  start();
  Client client(port_);
  client.send(kHandshake + "\r\n");
  ASSERT_EQ(client.read().status, 101);
  client.send(GetParam().sent);
  const auto bytes = client.read_bytes(4);
  ASSERT_EQ(bytes.size(), 4U);
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]), 0x88);
  EXPECT_EQ(static_cast<unsigned char>(bytes[2]) << 8 | static_cast<unsigned char>(bytes[3]), GetParam().close_code);
  client.half_close();
  EXPECT_TRUE(eventually([&] { return closed_ == 1 && connections() == 0; }));
}
INSTANTIATE_TEST_SUITE_P(, BadFrames,
                         testing::ValuesIn(std::vector<Row>{
                             {"Unmasked", frame(0x81, "hello", Mask::no), 1002},
                             {"Rsv1", frame(0xc1, "hello"), 1002},
                             {"Rsv2", frame(0xa1, "hello"), 1002},
                             {"Rsv3", frame(0x91, "hello"), 1002},
                             {"Opcode3", frame(0x83, "hello"), 1002},
                             {"Opcode7", frame(0x87, "hello"), 1002},
                             {"OpcodeB", frame(0x8b, "hello"), 1002},
                             {"OpcodeF", frame(0x8f, "hello"), 1002},
                             {"FragmentedPing", frame(0x09, "hello"), 1002},
                             {"LongPing", frame(0x89, std::string(126, 'a')), 1002},
                             {"ContinuationOfNothing", frame(0x80, "hello"), 1002},
                             {"NewMessageInside", frame(0x01, "a") + frame(0x81, "b"), 1002},
                             {"TwoToThe63", std::string("\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0", 14), 1009},
                             {"TooLarge", std::string("\x82\xff\0\0\0\0\0\x20\0\0\0\0\0\0", 14), 1009},
                             {"CloseCode0", frame(0x88, std::string("\0\0", 2)), 1002},
                             {"CloseCode1005", frame(0x88, "\x03\xed"), 1002},
                             {"CloseCode999", frame(0x88, "\x03\xe7"), 1002},
                             {"CloseCode1016", frame(0x88, "\x03\xf8"), 1002},
                             {"CloseOneByte", frame(0x88, "a"), 1002},
                             {"CloseReasonNotUtf8", frame(0x88, "\x03\xe8\xff\xff"), 1002},
                             {"NotUtf8", frame(0x81, "a\xff"), 1007},
                             {"Surrogate", frame(0x81, "\xed\xa0\x80"), 1007},
                             {"CutCharacter", frame(0x81, "\xe2\x82"), 1007},
                         }),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_F(HttpWebSocket, RefusesWhatIsNoHandshake) {
  keys_.is_open = true;
  start();
  const auto status = [&](const std::string& text) {
    Client client(port_);
    client.send(text);
    return client.read().status;
  };
  EXPECT_EQ(status("GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n"), 426);
  EXPECT_EQ(status("GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), 426);
  auto old = kHandshake;
  old.replace(old.find("Version: 13"), 11, "Version: 12");
  EXPECT_EQ(status(old + "\r\n"), 426);
  auto key = kHandshake;
  key.replace(key.find("AAECAw"), 6, "****");
  EXPECT_EQ(status(key + "\r\n"), 400);
  EXPECT_EQ(status(kHandshake + "Origin: http://evil.test\r\n\r\n"), 403);
  EXPECT_EQ(status(kHandshake + "\r\n" + frame(0x81, "early")), 400);
  EXPECT_EQ(opened_, 0);
}

TEST_F(HttpWebSocket, WantsTheKeyBeforeTheUpgrade) {
  keys_.is_open = false;
  start();
  Client without(port_);
  without.send(kHandshake + "\r\n");
  EXPECT_EQ(without.read().status, 401);
  Client with(port_);
  with.send(kHandshake + "Authorization: Bearer cove_right\r\n\r\n");
  EXPECT_EQ(with.read().status, 101);
}

TEST_F(HttpWebSocket, DropsThePeerThatDoesNotAnswerPings) {
  options_.websocket_idle_timeout = 300ms;
  start();
  Client client(port_);
  client.send(kHandshake + "\r\n");
  ASSERT_EQ(client.read().status, 101);
  EXPECT_TRUE(eventually([&] { return closed_ == 1 && connections() == 0; }));
}

TEST_F(HttpWebSocket, DropsThePeerThatTakesNothing) {
  options_.write_timeout = 300ms;
  start();
  Client client(port_, 4096);
  auto handshake = kHandshake;
  handshake.replace(handshake.find("/ws"), 3, "/flood");
  client.send(handshake + "\r\n");
  EXPECT_TRUE(eventually([&] { return closed_ == 1 && connections() == 0; }, 10s));
}

TEST_F(HttpWebSocket, EndsWhenThePeerVanishesOrTheServerStops) {
  start();
  Client vanishes(port_);
  vanishes.send(kHandshake + "\r\n");
  ASSERT_EQ(vanishes.read().status, 101);
  vanishes.reset();
  EXPECT_TRUE(eventually([&] { return closed_ == 1; }));
  Client stays(port_);
  stays.send(kHandshake + "\r\n");
  ASSERT_EQ(stays.read().status, 101);
  stop();
  EXPECT_TRUE(stays.at_end());
}

TEST_F(HttpWebSocket, CarriesLargeMessages) {
  start();
  Client client(port_);
  client.send(kHandshake + "\r\n");
  ASSERT_EQ(client.read().status, 101);
  const std::string large(1 << 20, 'x');
  std::thread sender([&] { client.send(frame(0x82, large)); });
  EXPECT_EQ(client.read_bytes(10 + large.size()).substr(10), large);
  sender.join();
}

}  // namespace
}  // namespace cove::http
