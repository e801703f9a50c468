#include "mcp/peer.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <vector>

namespace cove::mcp {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Lines : Outlet {
  std::vector<std::string> lines;
  void send(json::object message) override { lines.push_back(json::serialize(message)); }
  void send_batch(json::array messages) override { lines.push_back(json::serialize(messages)); }
};

// Answers what it was asked, after `release` where the method says "slow".
struct Echo : Service {
  explicit Echo(boost::asio::any_io_executor executor) : release(executor) {}
  json::object info() const override { return {{"name", "echo"}, {"version", "1"}}; }
  std::string instructions() const override { return "Say something."; }
  json::object capabilities(Revision) const override { return {{"tools", json::object()}}; }
  Task<Or<>> serve(Call& call) override {
    if (call.method == "slow") {
      while (!released && !call.cancelled()) co_await call.changed().wait();
      if (call.cancelled()) ++ended;
    }
    if (call.method == "tells") {
      call.progress("one");
      call.progress("two");
      call.log(Level::info, "echo", "word");
    }
    if (call.method == "nope") co_return fault(Code::method_not_found, "Method not found: nope");
    co_return json::object{{"method", call.method}, {"revision", name_of(call.revision)}, {"bare", call.bare}};
  }
  void forget(const std::string&) override { ++forgotten; }
  Task<Or<>> honour(Call&, Subscriptions&) override { co_return json::object(); }
  Notifier& notifier() override { return notifier_; }
  bool ending() const override { return false; }
  const Seal& seal() const override { return seal_; }
  Notifier notifier_;
  Seal seal_;
  async::Signal release;
  bool released = false;
  int ended = 0;
  int forgotten = 0;
};

struct PeerTest : testing::Test {
  boost::asio::io_context loop{1};
  async::TaskGroup tasks{loop.get_executor(), [](std::string_view, std::exception_ptr) { ADD_FAILURE(); }};
  Echo echo{loop.get_executor()};
  std::shared_ptr<Peer> peer =
      std::make_shared<Peer>(loop.get_executor(), tasks, echo, Peer::Options{.tenant = "t", .may_be_bare = true});
  std::shared_ptr<Lines> out = std::make_shared<Lines>();

  void say(std::string_view text) {
    peer->take(json::parse(text), out);
    loop.poll();
    loop.restart();
  }
  std::vector<std::string> answers(std::string_view text) {
    out->lines.clear();
    say(text);
    return out->lines;
  }
  std::string answer(std::string_view text) {
    const auto lines = answers(text);
    return lines.empty() ? "" : lines.front();
  }
  static std::string envelope(std::string_view method, std::string_view version = "2026-07-28",
                              std::string_view more = "") {
    return fmt::format(
        R"({{"jsonrpc":"2.0","id":1,"method":"{}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{}"{}}}}}}})",
        method, version, more.empty() ? R"(,"io.modelcontextprotocol/clientCapabilities":{})" : more);
  }
};

TEST_F(PeerTest, ServesWithoutAHandshake) {
  EXPECT_EQ(answer(R"({"id":1,"method":"x"})"),
            R"({"jsonrpc":"2.0","id":1,"result":{"method":"x","revision":"2024-11-05","bare":true}})");
}

TEST_F(PeerTest, EchoesEveryLegacyRevision) {
  for (const auto name : {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}) {
    auto fresh = std::make_shared<Peer>(loop.get_executor(), tasks, echo, Peer::Options{});
    out->lines.clear();
    fresh->take(json::parse(fmt::format(
                    R"({{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{}"}}}})", name)),
                out);
    EXPECT_THAT(out->lines, ElementsAre(HasSubstr(fmt::format(R"("protocolVersion":"{}")", name))));
  }
}

TEST_F(PeerTest, ASecondInitializeIsRefused) {
  say(R"({"jsonrpc":"2.0","id":1,"method":"initialize"})");
  EXPECT_THAT(answer(R"({"jsonrpc":"2.0","id":2,"method":"initialize"})"),
              HasSubstr(R"("id":2,"error":{"code":-32600)"));
}

TEST_F(PeerTest, WhatFollowsInitializeIsReadInItsLight) {
  peer->take(json::parse(R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}})"),
             out);
  peer->take(json::parse(R"({"jsonrpc":"2.0","id":2,"method":"x"})"), out);
  loop.poll();
  EXPECT_THAT(out->lines.back(), HasSubstr(R"("revision":"2025-06-18","bare":false)"));
}

TEST_F(PeerTest, PingsAndNotifications) {
  EXPECT_EQ(answer(R"({"jsonrpc":"2.0","id":"p","method":"ping"})"), R"({"jsonrpc":"2.0","id":"p","result":{}})");
  for (const auto* text :
       {R"({"jsonrpc":"2.0","method":"notifications/initialized"})", R"({"jsonrpc":"2.0","method":"initialized"})",
        R"({"jsonrpc":"2.0","method":"what/ever","params":[1]})", R"({"jsonrpc":"2.0","id":4,"result":{}})",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}})"})
    EXPECT_THAT(answers(text), ElementsAre()) << text;
}

TEST_F(PeerTest, QuickOnesOvertakeSlowOnes) {
  say(R"({"jsonrpc":"2.0","id":1,"method":"slow"})");
  EXPECT_EQ(out->lines.size(), 0U);
  EXPECT_THAT(answer(R"({"jsonrpc":"2.0","id":2,"method":"ping"})"), HasSubstr(R"("id":2)"));
  EXPECT_THAT(answer(R"({"jsonrpc":"2.0","id":1,"method":"ping"})"), HasSubstr("-32600")) << "its id is taken";
  EXPECT_EQ(peer->in_flight(), 1U);
}

TEST_F(PeerTest, OneThatIsCancelledIsEndedAndNotAnswered) {
  say(R"({"jsonrpc":"2.0","id":1,"method":"slow"})");
  EXPECT_THAT(answers(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})"),
              ElementsAre());
  EXPECT_EQ(echo.ended, 1);
  EXPECT_EQ(peer->in_flight(), 0U);
}

TEST_F(PeerTest, BatchesWhereTheyAreKnown) {
  const auto* batch =
      R"([{"jsonrpc":"2.0","id":1,"method":"ping","comment":"x"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":2,"method":"nope"},5])";
  EXPECT_THAT(answers(batch), ElementsAre(testing::AllOf(testing::StartsWith("["), HasSubstr(R"("id":1,"result":{})"),
                                                         HasSubstr(R"("id":2,"error":{"code":-32601)"),
                                                         HasSubstr(R"("id":null,"error":{"code":-32600)"))));
  EXPECT_THAT(answers("[]"), ElementsAre(HasSubstr("-32600")));
  EXPECT_THAT(answers(R"([{"jsonrpc":"2.0","method":"n"}])"), ElementsAre());
  say(R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}})");
  EXPECT_THAT(answers(batch), ElementsAre(HasSubstr("-32600")));
}

TEST_F(PeerTest, ModernRequestsCarryEverything) {
  const auto discovered = answer(envelope("server/discover"));
  for (const auto* part : {R"("supportedVersions":["2026-07-28"])", R"("resultType":"complete")", R"("ttlMs":300000)",
                           R"("cacheScope":"public")", R"("io.modelcontextprotocol/serverInfo":{"name":"echo")"})
    EXPECT_THAT(discovered, HasSubstr(part));
  EXPECT_THAT(answer(envelope("x")), HasSubstr(R"("revision":"2026-07-28","bare":false,"resultType":"complete")"));
  EXPECT_THAT(
      answer(envelope("x", "v999.0.0")),
      HasSubstr(
          R"("code":-32022,"message":"Unsupported protocol version: v999.0.0","data":{"supported":["2026-07-28"],"requested":"v999.0.0"})"));
  EXPECT_THAT(answer(envelope("x", "2026-07-28", R"(,"other":1)")), HasSubstr("-32602"));
  for (const auto* method : {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
                             "tasks/list", "tasks/result"})
    EXPECT_THAT(answer(envelope(method)),
                HasSubstr(fmt::format(R"("code":-32601,"message":"Method not found: {}")", method)));
  EXPECT_THAT(answer(R"({"jsonrpc":"2.0","id":1,"method":"server/discover"})"), HasSubstr("-32602"));
}

TEST_F(PeerTest, BothErasAtOnce) {
  say(R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}})");
  EXPECT_THAT(answer(envelope("x")), HasSubstr("2026-07-28"));
  EXPECT_THAT(answer(R"({"jsonrpc":"2.0","id":3,"method":"x"})"),
              HasSubstr(R"("revision":"2025-11-25","bare":false})"));
}

TEST_F(PeerTest, ProgressIsForWhoAskedForIt) {
  EXPECT_EQ(answers(R"({"jsonrpc":"2.0","id":1,"method":"tells"})").size(), 1U);
  const auto told = answers(R"({"jsonrpc":"2.0","id":1,"method":"tells","params":{"_meta":{"progressToken":7}}})");
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0],
            R"({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}})");
  EXPECT_THAT(told[1], HasSubstr(R"("progress":2)"));
}

TEST_F(PeerTest, LogLinesFromALevelOn) {
  EXPECT_THAT(answer(R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}})"),
              HasSubstr("-32602"));
  say(R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warning"}})");
  EXPECT_EQ(answers(R"({"jsonrpc":"2.0","id":1,"method":"tells"})").size(), 1U);
  say(R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}})");
  EXPECT_THAT(answers(R"({"jsonrpc":"2.0","id":1,"method":"tells"})").front(),
              HasSubstr(R"("method":"notifications/message","params":{"level":"info","logger":"echo","data":"word"})"));
  EXPECT_EQ(answers(envelope("tells")).size(), 1U) << "modern: only what its own request asks for";
}

TEST_F(PeerTest, OneThatGoesIsForgottenAndItsCallsEnd) {
  say(R"({"jsonrpc":"2.0","id":1,"method":"slow"})");
  peer->cancel_all();
  loop.poll();
  peer.reset();
  EXPECT_EQ(echo.ended, 1);
  EXPECT_EQ(echo.forgotten, 1);
}

}  // namespace
}  // namespace cove::mcp
