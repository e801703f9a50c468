#include "egress/dns_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/test_loop.hpp"
#include "egress/test_name_server.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> texts(const std::vector<asio::ip::address>& addresses) {
  std::vector<std::string> list;
  for (const auto& address : addresses) list.push_back(address.to_string());
  return list;
}

struct DnsClientTest : testing::Test {
  asio::io_context io{1};
  TestNameServer server{io};
  DnsClient client{io.get_executor(),
                   {.servers = {server.endpoint()}, .patience = std::chrono::milliseconds(100), .attempts = 2}};

  auto resolve(const std::string& name) {
    return run(io, client.resolve(name, Clock::now() + std::chrono::seconds(5)));
  }
};

TEST_F(DnsClientTest, AsksForBothFamiliesAndPutsIPv4First) {
  server.names["ok.test"] = {"2001:db8::1", "93.184.216.34", "127.0.0.1"};
  EXPECT_THAT(texts(resolve("ok.test").value()), ElementsAre("93.184.216.34", "127.0.0.1", "2001:db8::1"));
  EXPECT_THAT(server.asked, UnorderedElementsAre("ok.test 1", "ok.test 28"));
}

TEST_F(DnsClientTest, AnAnswerThatWasCutOffIsAskedForByTcp) {
  server.names["ok.test"] = {"93.184.216.34"};
  server.truncate = true;
  EXPECT_THAT(texts(resolve("ok.test").value()), ElementsAre("93.184.216.34"));
}

TEST_F(DnsClientTest, SaysWhyThereIsNoAddress) {
  server.names["empty.test"] = {};
  EXPECT_EQ(resolve("empty.test").error().message, "empty.test has no address");
  EXPECT_EQ(resolve("unknown.test").error().message, "unknown.test does not exist");
  EXPECT_EQ(resolve("unknown.test").error().code, Errc::not_found);
  server.silent = true;
  const auto silent = resolve("ok.test");
  EXPECT_EQ(silent.error().code, Errc::unavailable);
  EXPECT_THAT(silent.error().message, HasSubstr("no name server answered in time"));
}

TEST_F(DnsClientTest, DatagramsThatAnswerSomethingElseAreDropped) {
  server.names["ok.test"] = {"93.184.216.34"};
  server.before = [](const std::string& answer) {
    auto other_id = answer;
    other_id[0] = static_cast<char>(other_id[0] ^ 1);
    auto other_name = answer;
    other_name[13] = 'x';
    return std::vector<std::string>{"", "x", other_id, other_name, answer.substr(0, 20)};
  };
  EXPECT_THAT(texts(resolve("ok.test").value()), ElementsAre("93.184.216.34"));
}

TEST_F(DnsClientTest, TheNextServerIsAskedWhenOneIsSilent) {
  TestNameServer dead(io);
  dead.silent = true;
  server.names["ok.test"] = {"93.184.216.34"};
  DnsClient two(io.get_executor(),
                {.servers = {dead.endpoint(), server.endpoint()}, .patience = std::chrono::milliseconds(50)});
  EXPECT_TRUE(run(io, two.resolve("ok.test", Clock::now() + std::chrono::seconds(5))));
}

TEST(NameServers, AreReadFromTheSettingOrTheSystem) {
  const auto text = [](const Result<NameServers>& servers) {
    std::vector<std::string> list;
    for (const auto& server : servers.value())
      list.push_back(fmt::format("{} {}", server.address().to_string(), server.port()));
    return list;
  };
  EXPECT_THAT(text(name_servers("192.0.2.1", "")), ElementsAre("192.0.2.1 53"));
  EXPECT_THAT(text(name_servers("127.0.0.1:5353", "nameserver 1.1.1.1\n")), ElementsAre("127.0.0.1 5353"));
  EXPECT_THAT(text(name_servers("[2001:db8::1]:53", "")), ElementsAre("2001:db8::1 53"));
  EXPECT_THAT(text(name_servers("",
                                "# x\nsearch a.b\nnameserver 192.0.2.1 # here\nnameserver\t2001:db8::1\nnameserver "
                                "nonsense\nnameserverx 1.2.3.4\n")),
              ElementsAre("192.0.2.1 53", "2001:db8::1 53"));
  EXPECT_THAT(text(name_servers("", "nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\nnameserver 1.1.1.4")),
              testing::SizeIs(3));
  EXPECT_THAT(text(name_servers("", "")), ElementsAre("127.0.0.1 53"));
  for (const char* wrong : {"ns.example.org", "127.1", "1.1.1.1:0", "1.1.1.1:x", "::1:53x"})
    EXPECT_FALSE(name_servers(wrong, "")) << wrong;
}

}  // namespace
}  // namespace cove::egress
