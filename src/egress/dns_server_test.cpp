#include "egress/dns_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/test_sandbox.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;

struct DnsServer : SandboxTest {};

TEST_F(DnsServer, AnAllowedNameHasASyntheticAddressAndADeniedOneNoRoute) {
  open(R"({"allow":["ok.test:443","*.sub.test:80"],"deny":["bad.sub.test"]})");
  EXPECT_EQ(look_up("ok.test"), "198.18.0.1");
  EXPECT_EQ(look_up("ok.test"), "198.18.0.1");
  EXPECT_EQ(look_up("a.sub.test"), "198.18.16.1");
  for (const char* name : {"evil.test", "bad.sub.test", "sub.test", "ok.test.evil.test", "metadata.google.internal"})
    EXPECT_EQ(look_up(name), "198.19.0.1") << name;
  EXPECT_EQ(look_up("ok.test", DnsType::aaaa), "");
  EXPECT_EQ(look_up("evil.test", DnsType::aaaa), "");
  for (const int type : {2, 5, 12, 15, 16, 33, 64, 65, 255})
    EXPECT_EQ(look_up("ok.test", static_cast<DnsType>(type)), "") << type;
  EXPECT_EQ(look_up("localhost"), "127.0.0.1");
  EXPECT_EQ(look_up("a b.test"), "code 3");
  EXPECT_TRUE(names.asked.empty()) << "nobody else is ever asked";
}

TEST_F(DnsServer, SpellingDoesNotMatter) {
  open(R"({"allow":["ok.test"]})");
  const auto answer = answer_lookup(*egress, encode_query(1, "OK.Test", DnsType::a));
  EXPECT_NE(answer.find("OK"), std::string::npos) << "the question comes back as it was asked";
  EXPECT_EQ(parse_reply(answer, 1, "ok.test", DnsType::a).value().addresses.at(0).to_string(), "198.18.0.1");
}

TEST_F(DnsServer, DeniedLookupsAreRecordedOnceForAWhile) {
  open(R"({"allow":["ok.test"]})");
  for (int i = 0; i < 50; ++i) look_up("evil.test");
  look_up("other.test");
  const auto list = records();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].at("kind"), "dns");
  EXPECT_EQ(list[0].at("name"), "evil.test");
  EXPECT_EQ(list[0].at("verdict"), "denied");
  EXPECT_EQ(egress->counters.dns_denied, 51U);
}

TEST_F(DnsServer, RecordsThatDoNotFitAreCounted) {
  open(R"({"allow":["ok.test"]})");
  for (int i = 0; i < 1000; ++i) look_up(fmt::format("data{}.evil.test", i));
  const auto list = records();
  ASSERT_EQ(list.size(), AuditLog::kMaxWaiting + 1);
  EXPECT_EQ(list.back().at("lost"), 1000 - AuditLog::kMaxWaiting);
  EXPECT_EQ(egress->audit.lost(), 1000 - AuditLog::kMaxWaiting);
}

TEST_F(DnsServer, AnswersDatagramsAndStreams) {
  open(R"({"allow":["ok.test"]})");
  const auto query = encode_query(9, "ok.test", DnsType::a);
  udp::socket client(io, {asio::ip::address_v4::loopback(), 0});
  client.send_to(asio::buffer("x", 1), dns_where);
  client.send_to(asio::buffer(query), dns_where);
  const auto datagram = run(io, [](udp::socket& socket) -> async::Task<std::string> {
    std::string buffer(512, '\0');
    const auto size = co_await socket.async_receive(asio::buffer(buffer), asio::use_awaitable);
    co_return buffer.substr(0, size);
  }(client));
  EXPECT_TRUE(parse_reply(datagram, 9, "ok.test", DnsType::a));

  tcp::socket stream(io);
  stream.connect(dns_streams);
  std::string framed{static_cast<char>(query.size() >> 8), static_cast<char>(query.size() & 0xff)};
  framed += query;
  const auto both = talk(stream, framed + framed);
  ASSERT_GT(both.size(), 2U);
  EXPECT_EQ(both.substr(0, both.size() / 2), both.substr(both.size() / 2));
  EXPECT_TRUE(parse_reply(both.substr(2, both.size() / 2 - 2), 9, "ok.test", DnsType::a));
}

}  // namespace
}  // namespace cove::egress
