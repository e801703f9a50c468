#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "client/address.hpp"
#include "client/events.hpp"
#include "client/http_client.hpp"
#include "client/websocket.hpp"

namespace cove::client {
namespace {

using testing::HasSubstr;

struct AddressRow {
  const char* name;
  std::string_view given;
  std::string_view want;  // host|port|prefix; "" = refused
};
class AddressOf : public testing::TestWithParam<AddressRow> {};

TEST_P(AddressOf, IsTakenApartOrRefused) {
  const auto address = parse_address(GetParam().given);
  EXPECT_EQ(address ? fmt::format("{}|{}|{}", address->host, address->port, address->prefix) : "", GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, AddressOf,
                         testing::ValuesIn(std::to_array<AddressRow>({
                             {"Plain", "http://127.0.0.1:8000", "127.0.0.1|8000|"},
                             {"SlashAtTheEnd", "http://127.0.0.1:8000/", "127.0.0.1|8000|"},
                             {"DefaultPort", "http://cove.example", "cove.example|80|"},
                             {"PrefixIsKept", "http://h:1/cove_key/x//", "h|1|/cove_key/x"},
                             {"SixthVersion", "http://[::1]:8000/a", "::1|8000|/a"},
                             {"SixthWithoutPort", "http://[::1]", "::1|80|"},
                             {"Https", "https://h", ""},
                             {"NoScheme", "127.0.0.1:8000", ""},
                             {"NoHost", "http://:8000", ""},
                             {"NoPort", "http://h:", ""},
                             {"PortTooLarge", "http://h:65536", ""},
                             {"PortIsNoNumber", "http://h:80x", ""},
                             {"User", "http://u:p@h", ""},
                             {"Query", "http://h/?a", ""},
                             {"Space", "http://h/a b", ""},
                             {"LineBreak", "http://h/\r\nX: y", ""},
                             {"OpenBracket", "http://[::1", ""},
                             {"Empty", "", ""},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Address, HostHeaderNamesThePortOnlyWhenItMust) {
  EXPECT_EQ(parse_address("http://[::1]:8000")->authority(), "[::1]:8000");
  EXPECT_EQ(parse_address("http://h:80/x")->url(), "http://h/x");
}

TEST(Target, EncodesWhatAnIdOrAPathMayHold) {
  EXPECT_EQ(sandbox_target("a/b ü", "/files").with("path", "x&y=z").with("mode", "0644").text(),
            "/v1/sandboxes/a%2Fb%20%C3%BC/files?path=x%26y%3Dz&mode=0644");
}

TEST(EventParser, TakesEventsHoweverTheyAreCut) {
  const std::string_view stream = ": hello\n\nid: 7\nevent: stdout\r\ndata: a\ndata: b\r\n\r\ndata:c\n\nevent: x\n\n";
  for (std::size_t cut = 1; cut < 8; ++cut) {
    EventParser parser;
    for (std::size_t at = 0; at < stream.size(); at += cut) parser.feed(stream.substr(at, cut));
    const auto first = parser.next();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->id, "7");
    EXPECT_EQ(first->type, "stdout");
    EXPECT_EQ(first->data, "a\nb");
    const auto second = parser.next();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->type, "message");
    EXPECT_EQ(second->data, "c");
    EXPECT_FALSE(parser.next());  // an event without data is none
  }
}

// What a server would have sent for the same payload.
std::string server_frame(std::uint8_t first, std::string_view payload) {
  auto frame = encode_frame(Opcode::binary, payload, 0);
  const std::size_t mask_at = payload.size() < 126 ? 2 : payload.size() < 65536 ? 4 : 10;
  frame.erase(mask_at, 4);
  frame[0] = static_cast<char>(first);
  frame[1] = static_cast<char>(frame[1] & 0x7f);
  return frame;
}

TEST(Frames, AreMaskedAsTheStandardsExampleIs) {
  EXPECT_EQ(encode_frame(Opcode::text, "Hello", 0x37fa213d), "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
}

TEST(Frames, OfAnySizeAreReadByteByByte) {
  for (const std::size_t size : {0U, 1U, 125U, 126U, 65535U, 65536U, 70000U}) {
    const std::string payload(size, 'x');
    const auto bytes = server_frame(0x82, payload);
    FrameReader reader;
    reader.feed(std::string_view(bytes).substr(0, bytes.size() - 1));
    ASSERT_TRUE(reader.next());
    if (size > 0) EXPECT_FALSE(*reader.next());
    reader.feed(std::string_view(bytes).substr(bytes.size() - 1));
    const auto frame = reader.next();
    ASSERT_TRUE(frame && *frame);
    EXPECT_EQ((*frame)->payload, payload);
  }
}

TEST(Frames, ThatNoServerMaySendAreRefused) {
  for (const std::string_view bytes : {std::string_view("\xf2\x00", 2), std::string_view("\x82\x80", 2),
                                       std::string_view("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 10)}) {
    FrameReader reader;
    reader.feed(bytes);
    EXPECT_FALSE(reader.next());
  }
}

// A server that says what it is told to, whatever it hears: one connection for each script, one line of it per request.
class Script {
 public:
  explicit Script(std::vector<std::vector<std::string>> connections) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&where), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&where), &size);
    address_ = {.host = "127.0.0.1", .port = std::to_string(ntohs(where.sin_port)), .prefix = ""};
    thread_ = std::thread([this, script = std::move(connections)] { play(script); });
  }
  ~Script() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] Options options() const { return {.address = address_, .key = "cove_secret"}; }
  std::vector<std::string> heard;

 private:
  void play(const std::vector<std::vector<std::string>>& connections) {
    for (const auto& answers : connections) {
      const UniqueFd peer(::accept(listener_.get(), nullptr, nullptr));
      for (const auto& answer : answers) {
        std::string request;
        while (!complete(request)) {
          std::array<char, 4096> chunk;
          const auto n = ::recv(peer.get(), chunk.data(), chunk.size(), 0);
          if (n <= 0) break;
          request.append(chunk.data(), static_cast<std::size_t>(n));
        }
        heard.push_back(request);
        ::send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      }
    }
  }
  static bool complete(const std::string& request) {
    const auto head = request.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    if (request.find("chunked") < head) return request.ends_with("0\r\n\r\n");
    const auto at = request.find("Content-Length: ");
    return at > head || request.size() - head - 4 == std::stoul(request.substr(at + 16));
  }

  UniqueFd listener_;
  Address address_;
  std::thread thread_;
};

const std::string kFine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

TEST(Client, KeepsItsConnectionAndSendsItsKey) {
  Script server({{kFine, kFine}});
  Client client(server.options());
  EXPECT_EQ(client.ask({.target = "/a"})->body, "OK");
  EXPECT_EQ(client.ask({.method = "PUT", .target = "/b", .body = "{}"})->body, "OK");
  server.join();
  ASSERT_EQ(server.heard.size(), 2U);
  EXPECT_THAT(server.heard[0], HasSubstr("GET /a HTTP/1.1\r\n"));
  EXPECT_THAT(server.heard[0], HasSubstr("Authorization: Bearer cove_secret\r\n"));
  EXPECT_THAT(server.heard[1], HasSubstr("Content-Length: 2\r\n\r\n{}"));
}

TEST(Client, ConnectsAgainWhenTheServerClosedAnIdleConnection) {
  Script server({{kFine}, {kFine}});
  Client client(server.options());
  EXPECT_TRUE(client.ask({.target = "/a"}));
  EXPECT_TRUE(client.ask({.target = "/b"}));
}

TEST(Client, StreamsBothWays) {
  Script server({{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"}});
  Client client(server.options());
  int left = 3;
  const Upload upload{.source = [&](std::span<char> room) -> Result<std::size_t> {
                        if (left-- == 0) return std::size_t{0};
                        room[0] = 'x';
                        return std::size_t{1};
                      },
                      .size = std::nullopt};
  std::string got;
  const Download download{.begin = [](auto) { return Result<>(); },
                          .take =
                              [&](std::string_view bytes) {
                                got += bytes;
                                return Result<>();
                              }};
  EXPECT_TRUE(client.ask({.method = "POST", .target = "/"}, &upload, &download));
  EXPECT_EQ(got, "abcde");
  server.join();
  EXPECT_THAT(server.heard[0], HasSubstr("\r\n\r\n1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n0\r\n\r\n"));
}

TEST(Client, AnAnswerThatBreaksOffIsAFailure) {
  Script server({{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"}});
  Client client(server.options());
  const auto answer = client.ask({.target = "/"});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("before the response was complete"));
}

TEST(Client, SaysWhatToDoNext) {
  Script server({{"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"},
                 {"HTTP/1.1 404 Not Found\r\nContent-Length: 31\r\n\r\n{\"error\": \"no such sandbox: x\"}"},
                 {"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops"}});
  auto options = server.options();
  options.key = "";
  const auto answer = [&] { return Client(options).ask({.target = "/"}).error().message; };
  EXPECT_EQ(answer(), "the server requires a key: give --key or set COVE_API_KEY");
  EXPECT_EQ(answer(), "no such sandbox: x");
  EXPECT_EQ(answer(), "the server responded 502 Bad Gateway");
}

TEST(Client, TellsAWrongKeyFromAMissingOne) {
  const std::string wrong = "the server does not accept this key: it is wrong or was revoked (--key, COVE_API_KEY)";
  Script server({{"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"},
                 {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"}});
  auto options = server.options();
  options.key = "cove_wrong";
  EXPECT_EQ(Client(options).ask({.target = "/"}).error().message, wrong);
  options.key = "";
  options.address.prefix = "/cove_wrong";
  EXPECT_EQ(Client(options).ask({.target = "/"}).error().message, wrong);
}

TEST(Client, AsksWhetherTheServerRunsWhenNobodyAnswers) {
  Options options{.address = *parse_address("http://127.0.0.1:1"), .key = ""};
  EXPECT_EQ(Client(options).ask({.target = "/"}).error().message,
            "cannot reach http://127.0.0.1:1: is `cove serve` running?");
}

TEST(Client, GivesUpWhenInterrupted) {
  Script server({{""}});
  auto options = server.options();
  const UniqueFd interrupt(::eventfd(1, EFD_CLOEXEC));
  options.waiting.interrupt_fd = interrupt.get();
  const auto answer = Client(options).ask({.target = "/"});
  ASSERT_FALSE(answer);
  EXPECT_TRUE(interrupted(answer.error()));
}

TEST(Client, FollowsEventsUntilTheStreamEnds) {
  Script server(
      {{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        "e\r\ndata: one\n\ndat\r\n8\r\na: two\n\n\r\n0\r\n\r\n"}});
  Client client(server.options());
  auto events = client.follow({.target = "/events"});
  ASSERT_TRUE(events);
  EXPECT_EQ((*events->next())->data, "one");
  EXPECT_EQ((*events->next())->data, "two");
  EXPECT_FALSE(*events->next());
}

}  // namespace
}  // namespace cove::client
