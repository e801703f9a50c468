#include "egress/proxy_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cove::egress {
namespace {

using testing::HasSubstr;
using testing::Not;
using Form = ProxyRequest::Form;

ProxyRequest parsed(std::string_view head, std::uint16_t port = 80) {
  auto found = parse_proxy_request(head, port);
  if (const auto* refused = std::get_if<ProxyRefusal>(&found)) throw std::runtime_error(refused->sentence);
  return std::get<ProxyRequest>(std::move(found));
}

TEST(ProxyRequest, SaysWhereItGoes) {
  struct Row {
    const char* head;
    Form form;
    const char* host;
    std::uint16_t port;
    const char* path;
  };
  for (const auto& row : std::vector<Row>{
           {"CONNECT ok.test:443 HTTP/1.1\r\n\r\n", Form::connect, "ok.test", 443, ""},
           {"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n", Form::connect, "2001:db8::1", 443, ""},
           {"GET http://ok.test HTTP/1.1\r\nHost: ok.test\r\n\r\n", Form::absolute, "ok.test", 80, "/"},
           {"GET HTTP://OK.test:8080?q HTTP/1.0\r\nHost: ok.test.:8080\r\n\r\n", Form::absolute, "OK.test", 8080,
            "/?q"},
           {"GET /x HTTP/1.1\r\nHost: ok.test:81\r\n\r\n", Form::origin, "ok.test", 81, "/x"},
       }) {
    const auto request = parsed(row.head);
    EXPECT_EQ(request.form, row.form) << row.head;
    EXPECT_EQ(request.host, row.host) << row.head;
    EXPECT_EQ(request.port, row.port) << row.head;
    EXPECT_EQ(request.path, row.path) << row.head;
  }
  EXPECT_EQ(parsed("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 443).port, 443);
}

TEST(ProxyRequest, GoesOnWithoutWhatIsOfOneConnection) {
  const auto request = parsed(
      "POST http://ok.test/a HTTP/1.1\r\nHost: ok.test\r\nConnection: x-own, close\r\nX-Own: 1\r\nProxy-Authorization: "
      "secret\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Kept: 2\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(encode_request(request, {}),
            "POST /a HTTP/1.1\r\nHost: ok.test\r\nX-Kept: 2\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
}

TEST(ProxyRequest, AddedFieldsTakeThePlaceOfTheClients) {
  const auto request = parsed("GET http://ok.test/ HTTP/1.1\r\nAUTHORIZATION: own\r\nRange: bytes=0-1\r\n\r\n");
  const std::vector<HttpField> added{{.name = "authorization", .value = "theirs"}, {.name = "Range", .value = ""}};
  const auto text = encode_request(request, added);
  EXPECT_THAT(text, HasSubstr("authorization: theirs\r\n"));
  EXPECT_THAT(text, Not(HasSubstr("own")));
  EXPECT_THAT(text, Not(HasSubstr("Range")));
}

TEST(ProxyResponse, EndsTheConnectionAndKeepsItsFraming) {
  const auto found = parse_response(
      "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nContent-Encoding: identity\r\nContent-Length: "
      "7\r\n\r\n");
  const auto& response = std::get<ProxyResponse>(found);
  EXPECT_FALSE(response.encoded);
  EXPECT_EQ(encode_response(response),
            "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 7\r\nConnection: close\r\n\r\n");
  for (const char* bad : {"HTTP/2 200\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "ICY 200 OK\r\n\r\n",
                          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"})
    EXPECT_TRUE(std::holds_alternative<ProxyRefusal>(parse_response(bad))) << bad;
}

}  // namespace
}  // namespace cove::egress
