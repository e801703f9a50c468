#include "egress/relay.hpp"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/test_sandbox.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kReset = "error: Connection reset by peer";

std::size_t open_descriptors() {
  std::size_t count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), ::closedir);
  while (::readdir(directory.get()) != nullptr) ++count;
  return count;
}

struct Relay : SandboxTest {
  std::uint16_t port = serve(echo);
  // Names may have addresses of this machine: they are listed.
  std::string allow(const std::string& more = "") const {
    return fmt::format(R"({{"allow":["ok.test:{0}","*.sub.test","127.0.0.1:{0}"]{1}}})", port, more);
  }
};

TEST_F(Relay, CarriesBytesToAnAllowedNameBothWaysAndEndsInOrder) {
  open(allow());
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("ok.test"), port);
  EXPECT_EQ(talk(socket, "hello"), "hello");
  pause();
  const auto list = records();
  const auto closed = std::ranges::find_if(list, [](const auto& record) { return record.at("event") == "closed"; });
  ASSERT_NE(closed, list.end());
  EXPECT_EQ(closed->at("bytes_in"), 5);
  EXPECT_EQ(closed->at("bytes_out"), 5);
  EXPECT_FALSE(closed->contains("error"));
  EXPECT_EQ(egress->inspect().at("connections"), (boost::json::object{{"open", 0}, {"total", 1}, {"refused", 0}}));
  EXPECT_EQ(common.connections, 0U);
}

TEST_F(Relay, ResetsWhatIsNotAllowed) {
  open(allow());
  names.names["ok.test"] = {"127.0.0.1"};
  const auto address = look_up("ok.test");
  for (const auto& [where, wrong_port] :
       std::vector<std::pair<std::string, std::uint16_t>>{{address, std::uint16_t{1}},
                                                          {"198.18.0.77", port},
                                                          {"198.19.0.1", port},
                                                          {"8.8.8.8", port},
                                                          {"127.0.0.1", port},
                                                          {"::1", port},
                                                          {"169.254.169.254", std::uint16_t{80}}}) {
    auto socket = dial(where, wrong_port);
    EXPECT_EQ(talk(socket, ""), kReset) << where;
  }
  EXPECT_EQ(accepted, 0U);
  EXPECT_THAT(names.asked, IsEmpty());
  EXPECT_EQ(told().size(), 7U);
  EXPECT_EQ(egress->counters.refused, 7U);
}

TEST_F(Relay, NeverDialsAPrivateAddressOfAnAllowedName) {
  open(R"({"mode":"public"})");
  names.names["rebound.test"] = {"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254"};
  auto socket = dial(look_up("rebound.test"), port);
  EXPECT_EQ(talk(socket, "x"), kReset);
  EXPECT_EQ(accepted, 0U);
  EXPECT_THAT(told(), ElementsAre("connect rebound.test 127.0.0.1 denied private address"));
}

TEST_F(Relay, JudgesEveryConnectionByWhatTheNameHasThen) {
  open(allow());
  names.names["ok.test"] = {"127.0.0.1"};
  auto first = dial(look_up("ok.test"), port);
  EXPECT_EQ(talk(first, "a"), "a");
  names.names["ok.test"] = {"127.0.0.2"};
  auto second = dial(look_up("ok.test"), port);
  EXPECT_EQ(talk(second, "b"), kReset);
  EXPECT_EQ(accepted, 1U);
}

TEST_F(Relay, TriesTheNextAddressWhenOneDoesNotAnswer) {
  open(fmt::format(R"({{"allow":["ok.test","127.0.0.0/8:{}"]}})", port));
  names.names["ok.test"] = {"127.0.0.9", "10.0.0.1",
                            "127.0.0.1"};  // nobody listens on the first, the second may not be dialled
  auto socket = dial(look_up("ok.test"), port);
  EXPECT_EQ(talk(socket, "hello"), "hello");
}

TEST_F(Relay, AListedAddressIsDialledAsSuch) {
  open(R"({"allow":["192.0.2.1"]})");
  auto socket = dial("192.0.2.2", 80);
  EXPECT_EQ(talk(socket, "x"), kReset);
  EXPECT_THAT(told(), ElementsAre("connect  192.0.2.2 denied default"));
}

TEST_F(Relay, AServerThatSpeaksFirstIsHeardAtOnce) {
  const auto greeter = serve([](tcp::socket socket) -> async::Task<> {
    co_await asio::async_write(socket, asio::buffer("220 hello\r\n", 11), kTestTuple);
    co_await echo(std::move(socket));
  });
  open(fmt::format(R"({{"allow":["ok.test","127.0.0.1:{}"]}})", greeter));
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("ok.test"), greeter);
  EXPECT_EQ(run(io, read_exactly(socket, 11)), "220 hello\r\n");
  EXPECT_EQ(talk(socket, "QUIT"), "QUIT");
}

TEST_F(Relay, WhatTheServerKeepsSayingAfterTheClientHasEndedArrives) {
  const auto late = serve([](tcp::socket socket) -> async::Task<> {
    std::array<char, 16> buffer{};
    [[maybe_unused]] const auto first = co_await socket.async_read_some(asio::buffer(buffer), kTestTuple);
    [[maybe_unused]] const auto [ended, none] = co_await socket.async_read_some(asio::buffer(buffer), kTestTuple);
    const std::string text(100'000, ended == asio::error::eof ? 'y' : 'n');
    co_await asio::async_write(socket, asio::buffer(text), kTestTuple);
  });
  open(fmt::format(R"({{"allow":["ok.test","127.0.0.1:{}"]}})", late));
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("ok.test"), late);
  EXPECT_EQ(talk(socket, "x"), std::string(100'000, 'y'));
}

TEST_F(Relay, AResetOfTheServerIsAReset) {
  const auto rude = serve([](tcp::socket socket) -> async::Task<> {
    std::array<char, 16> buffer{};
    co_await socket.async_read_some(asio::buffer(buffer), kTestTuple);
    socket.set_option(asio::socket_base::linger(true, 0));
    socket.close();
  });
  open(fmt::format(R"({{"allow":["ok.test","127.0.0.1:{}"]}})", rude));
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("ok.test"), rude);
  EXPECT_EQ(talk(socket, "x"), kReset);
}

TEST_F(Relay, AReaderThatDoesNotReadStopsTheWriter) {
  std::size_t written = 0;
  const auto flood = serve([&written](tcp::socket socket) -> async::Task<> {
    const std::string text(1 << 16, 'x');
    for (int i = 0; i < 2000; ++i) {
      const auto [failed, size] = co_await asio::async_write(socket, asio::buffer(text), kTestTuple);
      if (failed) co_return;
      written += size;
    }
  });
  open(fmt::format(R"({{"allow":["ok.test","127.0.0.1:{}"]}})", flood));
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("ok.test"), flood);
  pause(300);
  EXPECT_LT(written, std::size_t{60} << 20);  // kernel buffers and one pipe
  const auto before = written;
  pause(100);
  EXPECT_EQ(written, before);
  EXPECT_EQ(talk(socket, "").size(), std::size_t{2000} << 16);
}

TEST_F(Relay, ConnectionsAtOnceAreBounded) {
  open(allow(R"(,"caps":{"connections":2})"));
  names.names["ok.test"] = {"127.0.0.1"};
  const auto address = look_up("ok.test");
  auto first = dial(address, port);
  auto second = dial(address, port);
  pause();
  auto third = dial(address, port);
  EXPECT_EQ(talk(third, "c"), kReset);
  EXPECT_EQ(talk(first, "a"), "a");
  pause();
  auto fourth = dial(address, port);
  EXPECT_EQ(talk(fourth, "d"), "d");
  EXPECT_THAT(told(), testing::Contains(HasSubstr("denied caps.connections")));
}

TEST_F(Relay, ConnectionsPerSecondAreDelayed) {
  open(allow(R"(,"caps":{"connectionsPerSecond":5})"));
  names.names["ok.test"] = {"127.0.0.1"};
  const auto address = look_up("ok.test");
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 8; ++i) {
    auto socket = dial(address, port);
    EXPECT_EQ(talk(socket, "x"), "x");
  }
  EXPECT_GT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(350));
}

TEST_F(Relay, BytesInAllAreBounded) {
  open(allow(R"(,"caps":{"bytes":1000})"));
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("ok.test"), port);
  EXPECT_EQ(talk(socket, std::string(5000, 'x')), kReset);
  pause();
  // The piece that goes past the bound is the last.
  EXPECT_LE(egress->counters.bytes_in + egress->counters.bytes_out, 1000U + 4096U);
}

TEST_F(Relay, BytesPerSecondAreBounded) {
  open(allow(R"(,"caps":{"bytesPerSecond":100000})"));
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("ok.test"), port);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(talk(socket, std::string(80'000, 'x')).size(),
            80'000U);  // 160 000 both ways, of which a second's worth is saved up
  EXPECT_GT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(450));
}

TEST_F(Relay, AnotherPolicyEndsWhatItDeniesIfItIsForAllConnections) {
  open(allow());
  names.names["ok.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("ok.test"), port);
  run(io,
      [](tcp::socket& s) -> async::Task<> { co_await asio::async_write(s, asio::buffer("a", 1), kTestTuple); }(socket));
  EXPECT_EQ(run(io, read_exactly(socket, 1)), "a");
  egress->change(policy_of(R"("none")"), SandboxEgress::Scope::new_connections);
  run(io,
      [](tcp::socket& s) -> async::Task<> { co_await asio::async_write(s, asio::buffer("b", 1), kTestTuple); }(socket));
  EXPECT_EQ(run(io, read_exactly(socket, 1)), "b");
  auto next = dial("198.18.0.1", port);
  EXPECT_EQ(talk(next, "x"), kReset);
  egress->change(policy_of(R"({"allow":["other.test"]})"), SandboxEgress::Scope::all_connections);
  EXPECT_EQ(talk(socket, ""), kReset);
}

TEST_F(Relay, LearningProposesWhatWasUsed) {
  open(fmt::format(R"({{"mode":"allow","learn":true,"allow":["127.0.0.1:{}"]}})", port));
  names.names["new.test"] = {"127.0.0.1"};
  auto socket = dial(look_up("new.test"), port);
  EXPECT_EQ(talk(socket, "x"), "x");
  const auto proposed = egress->inspect().at("proposed").as_array();
  ASSERT_EQ(proposed.size(), 1U);
  EXPECT_EQ(proposed[0].as_string(), fmt::format("new.test:{}", port));
}

TEST_F(Relay, ManyConnectionsLeaveNothingBehind) {
  open(allow(R"(,"caps":{"connections":0,"connectionsPerSecond":0})"));
  names.names["ok.test"] = {"127.0.0.1"};
  const auto address = look_up("ok.test");
  auto warm = dial(address, port);
  EXPECT_EQ(talk(warm, "x"), "x");
  warm.close();
  pause();
  const auto before = open_descriptors();
  for (int i = 0; i < 1000; ++i) {
    auto socket = dial(address, port);
    ASSERT_EQ(talk(socket, "x"), "x");
  }
  pause();
  EXPECT_LE(open_descriptors(), before + 4);
  EXPECT_EQ(common.connections, 0U);
  EXPECT_LE(egress->tasks.size(), 5U);
}

}  // namespace
}  // namespace cove::egress
