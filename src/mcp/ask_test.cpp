#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <vector>

#include "mcp/peer.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Lines : Outlet {
  std::vector<json::object> messages;
  bool everything = true;
  void send(json::object message) override { messages.push_back(std::move(message)); }
  void send_batch(json::array) override {}
  [[nodiscard]] bool carries_everything() const override { return everything; }
};

// Asks for a name; with `twice`, for a colour after it; with `sample`, the client's model.
struct Asking : Service {
  json::object info() const override { return {{"name", "asking"}, {"version", "1"}}; }
  std::string instructions() const override { return ""; }
  json::object capabilities(Revision) const override { return {}; }
  Task<Or<>> serve(Call& call) override {
    if (call.params.contains("sample")) {
      std::vector<Question> model{{.key = "m", .method = "sampling/createMessage", .params = {{"maxTokens", 1}}}};
      auto said = co_await call.ask(std::move(model));
      if (!said) co_return said.error();
      co_return json::object{{"model", *said->at("m")}};
    }
    std::vector<Question> first{elicitation("name", "Who?", {{"type", "object"}})};
    auto name = co_await call.ask(std::move(first));
    if (!name) co_return name.error();
    if (!name->at("name")) co_return tl::unexpected<Fault>(name->at("name").error());
    json::object result{{"name", *name->at("name")}};
    if (call.params.contains("twice")) {
      std::vector<Question> second{elicitation("colour", "Which?", {{"type", "object"}})};
      auto colour = co_await call.ask(std::move(second));
      if (!colour) co_return colour.error();
      result["colour"] = *colour->at("colour");
    }
    co_return result;
  }
  void forget(const std::string&) override {}
  Task<Or<>> honour(Call&, Subscriptions&) override { co_return json::object(); }
  Notifier& notifier() override { return notifier_; }
  bool ending() const override { return false; }
  const Seal& seal() const override { return seal_; }
  Notifier notifier_;
  Seal seal_;
};

struct AskTest : testing::Test {
  boost::asio::io_context loop{1};
  async::TaskGroup tasks{loop.get_executor(), [](std::string_view, std::exception_ptr) { ADD_FAILURE(); }};
  Asking service;
  std::shared_ptr<Lines> out = std::make_shared<Lines>();
  std::shared_ptr<Peer> peer = new_peer("t");

  std::shared_ptr<Peer> new_peer(std::string tenant, std::chrono::milliseconds patience = std::chrono::minutes(1)) {
    Peer::Options options{.tenant = std::move(tenant), .may_be_bare = true, .patience = patience};
    return std::make_shared<Peer>(loop.get_executor(), tasks, service, std::move(options));
  }
  void poll() {
    loop.poll();
    loop.restart();
  }
  std::vector<json::object> say(const json::value& message) {
    out->messages.clear();
    peer->take(message, out);
    poll();
    return out->messages;
  }
  void initialize(json::object capabilities, std::string_view version = "2025-11-25") {
    say({{"jsonrpc", "2.0"},
         {"id", 0},
         {"method", "initialize"},
         {"params", {{"protocolVersion", version}, {"capabilities", std::move(capabilities)}}}});
  }
  static json::object call(json::object params) {
    return {{"jsonrpc", "2.0"}, {"id", 1}, {"method", "tools/call"}, {"params", std::move(params)}};
  }
  static json::object modern_call(json::object params, json::object capabilities = {{"elicitation", json::object()}}) {
    params["_meta"] = {{"io.modelcontextprotocol/protocolVersion", "2026-07-28"},
                       {"io.modelcontextprotocol/clientCapabilities", std::move(capabilities)}};
    return call(std::move(params));
  }
  json::object result_of(const json::object& message) {
    const auto said = say(message);
    return said.empty() ? json::object() : said.back();
  }
  int code_of(const json::object& message) {
    const auto said = result_of(message);
    return said.contains("error") ? said.at("error").at("code").to_number<int>() : 0;
  }
};

const json::object kAda{{"action", "accept"}, {"content", {{"name", "Ada"}}}};

TEST_F(AskTest, ALegacyClientIsAskedWhileItsCallRuns) {
  initialize({{"elicitation", json::object()}});
  const auto asked = say(call({}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(json::serialize(asked[0]), R"({"jsonrpc":"2.0","id":"ask-1","method":"elicitation/create",)"
                                       R"("params":{"message":"Who?","requestedSchema":{"type":"object"}}})");
  EXPECT_THAT(say({{"jsonrpc", "2.0"}, {"id", "ask-77"}, {"result", kAda}}), ElementsAre()) << "nobody asked that";
  EXPECT_THAT(say({{"jsonrpc", "2.0"}, {"id", 1}, {"result", kAda}}), ElementsAre());
  const auto heard = say({{"jsonrpc", "2.0"}, {"id", "ask-1"}, {"result", kAda}});
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].at("id"), 1);
  EXPECT_EQ(peer->in_flight(), 0U);
}

TEST_F(AskTest, TheAnswerOfALegacyClientIsUsed) {
  initialize({{"elicitation", json::object()}});
  const auto stream = std::make_shared<Lines>();
  peer->take(call({}), stream);
  poll();
  say({{"jsonrpc", "2.0"}, {"id", "ask-1"}, {"result", kAda}});
  ASSERT_EQ(stream->messages.size(), 2U);
  EXPECT_EQ(stream->messages[1].at("result").at("name"), kAda);
}

TEST_F(AskTest, AnErrorOfTheClientsComesBackAsOne) {
  initialize({{"elicitation", json::object()}});
  const auto stream = std::make_shared<Lines>();
  peer->take(call({}), stream);
  poll();
  say({{"jsonrpc", "2.0"}, {"id", "ask-1"}, {"error", {{"code", -1}, {"message", "no user"}}}});
  EXPECT_EQ(json::serialize(stream->messages.at(1).at("error")), R"({"code":-1,"message":"no user"})");
}

TEST_F(AskTest, OneThatSaysNothingIsNotWaitedForForEver) {
  peer = new_peer("t", std::chrono::milliseconds(1));
  initialize({{"elicitation", json::object()}});
  out->messages.clear();
  peer->take(call({}), out);
  while (peer->in_flight() > 0 || out->messages.size() < 3) loop.run_one();
  EXPECT_EQ(out->messages.at(1).at("method"), "notifications/cancelled");
  EXPECT_EQ(out->messages.at(1).at("params").at("requestId"), "ask-1");
  EXPECT_EQ(out->messages.at(2).at("error").at("code"), -32603);
}

TEST_F(AskTest, WhoCancelsItsCallIsNotAskedAnyMore) {
  initialize({{"elicitation", json::object()}});
  say(call({}));
  const auto said = say({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}});
  EXPECT_THAT(json::serialize(out->messages.at(0)), HasSubstr("notifications/cancelled"));
  EXPECT_EQ(peer->in_flight(), 0U);
}

TEST_F(AskTest, NobodyIsAskedWhatItDidNotDeclare) {
  initialize({{"sampling", json::object()}});
  EXPECT_EQ(code_of(call({})), -32600);
  peer = new_peer("t");
  initialize({{"elicitation", {{"url", json::object()}}}});
  EXPECT_EQ(code_of(call({})), -32600) << "addresses are no forms";
  peer = new_peer("t");
  initialize({{"elicitation", json::object()}}, "2025-03-26");
  EXPECT_EQ(code_of(call({})), -32600) << "its revision has no such request";
  peer = new_peer("t");
  initialize({{"elicitation", json::object()}});
  out->everything = false;
  EXPECT_EQ(code_of(call({})), -32600) << "it would not hear the question";
  peer = new_peer("t");
  EXPECT_EQ(code_of(call({})), -32600) << "bare";
  const auto refused = result_of(modern_call({{"sample", true}}));
  EXPECT_EQ(json::serialize(refused.at("error").at("data")), R"({"requiredCapabilities":{"sampling":{}}})");
  EXPECT_EQ(refused.at("error").at("code"), -32021);
}

TEST_F(AskTest, AModernCallComesAgainWithTheAnswer) {
  const auto asked = result_of(modern_call({})).at("result").as_object();
  EXPECT_EQ(asked.at("resultType"), "input_required");
  EXPECT_EQ(
      json::serialize(asked.at("inputRequests")),
      R"({"name":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object"}}}})");
  const json::object both{{"inputResponses", {{"name", kAda}, {"other", json::object()}}},
                          {"requestState", asked.at("requestState")}};
  const auto done = result_of(modern_call(both)).at("result").as_object();
  EXPECT_EQ(done.at("resultType"), "complete");
  EXPECT_EQ(done.at("name"), kAda);
  const json::object wrong{{"inputResponses", {{"nome", kAda}}}, {"requestState", asked.at("requestState")}};
  EXPECT_EQ(result_of(modern_call(wrong)).at("result").at("resultType"), "input_required") << "asked again";
}

TEST_F(AskTest, RoundsAreRememberedInTheState) {
  const auto first = result_of(modern_call({{"twice", true}})).at("result").as_object();
  const auto second = result_of(modern_call({{"twice", true},
                                             {"inputResponses", {{"name", kAda}}},
                                             {"requestState", first.at("requestState")}}))
                          .at("result")
                          .as_object();
  EXPECT_THAT(json::serialize(second.at("inputRequests")), testing::AllOf(HasSubstr("colour"), Not(HasSubstr("Who"))));
  const auto done = result_of(modern_call({{"inputResponses", {{"colour", {{"action", "decline"}}}}},
                                           {"twice", true},
                                           {"requestState", second.at("requestState")}}))
                        .at("result")
                        .as_object();
  EXPECT_EQ(done.at("name"), kAda);
  EXPECT_EQ(done.at("colour").at("action"), "decline");
}

TEST_F(AskTest, StateIsGoodForItsCallAlone) {
  auto state = std::string(result_of(modern_call({{"x", 1}})).at("result").at("requestState").as_string());
  const auto again = [&](json::object params, std::string_view with) {
    params["inputResponses"] = {{"name", kAda}};
    params["requestState"] = with;
    return code_of(modern_call(std::move(params)));
  };
  EXPECT_EQ(again({{"x", 1}}, state), 0);
  EXPECT_EQ(again({{"x", 2}}, state), -32602) << "another call";
  auto changed = state;
  changed[3] = changed[3] == 'a' ? 'b' : 'a';
  EXPECT_EQ(again({{"x", 1}}, changed), -32602);
  EXPECT_EQ(again({{"x", 1}}, state.substr(0, state.size() - 1)), -32602);
  EXPECT_EQ(again({{"x", 1}}, "x.y"), -32602);
  EXPECT_EQ(again({{"x", 1}}, ""), -32602);
  EXPECT_EQ(code_of(modern_call({{"requestState", 5}})), -32602);
  EXPECT_EQ(code_of(modern_call({{"inputResponses", 5}})), -32602);
  EXPECT_EQ(code_of(modern_call({{"inputResponses", {{"name", 5}}}})), -32602);
  peer = new_peer("other");
  EXPECT_EQ(again({{"x", 1}}, state), -32602) << "another's";
}

TEST(Seal, IsGoodForATimeAndOneServer) {
  const Seal seal;
  const json::object state{{"a", 1}};
  EXPECT_EQ(seal.open(seal.close(state, std::chrono::minutes(1))), state);
  EXPECT_EQ(seal.open(seal.close(state, std::chrono::milliseconds(-1))), std::nullopt);
  EXPECT_EQ(Seal().open(seal.close(state, std::chrono::minutes(1))), std::nullopt);
}

TEST_F(AskTest, WhatBelongsToNoRequestGoesToWhoListens) {
  const auto line = std::make_shared<Lines>();
  peer->notify("notifications/x", {});
  peer->speak_on(line);
  peer->notify("notifications/x", {});
  initialize({});
  peer->notify("notifications/x", {});
  EXPECT_EQ(line->messages.size(), 0U) << "it has not said that it is ready";
  say({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
  peer->notify("notifications/x", {{"a", 1}});
  ASSERT_EQ(line->messages.size(), 1U);
  EXPECT_EQ(json::serialize(line->messages[0]), R"({"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}})");
}

}  // namespace
}  // namespace cove::mcp
