#include "mcp/tasks.hpp"

#include <gmock/gmock.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "mcp/page.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

struct Nowhere : Outlet {
  void send(json::object) override {}
  void send_batch(json::array) override {}
};

struct TasksTest : testing::Test {
  boost::asio::io_context loop{1};
  async::TaskGroup group{loop.get_executor(), [](std::string_view, std::exception_ptr) { ++escaped; }};
  static inline int escaped = 0;
  Notifier notifier;
  Tasks tasks{loop.get_executor(), group, notifier, {.most = 3, .life = milliseconds(60'000)}};
  async::Signal more{loop.get_executor()};
  bool finish = false;
  int ended = 0;  // because nobody waits

  std::shared_ptr<Call> call(std::string method, json::object params, Revision revision = Revision::v2025_11_25) {
    auto made = std::make_shared<Call>(loop.get_executor(), std::make_shared<Nowhere>());
    made->revision = revision;
    made->tenant = "t";
    made->connection = "c";
    made->method = std::move(method);
    made->params = std::move(params);
    if (modern(revision))
      made->capabilities = {{"extensions", {{"io.modelcontextprotocol/tasks", json::object()}}},
                            {"elicitation", json::object()}};
    return made;
  }
  // Lets everything happen that can happen now.
  template <typename T>
  std::optional<T> done(Task<T> task) {
    std::optional<T> result;
    boost::asio::co_spawn(loop, std::move(task),
                          [&result](std::exception_ptr, T value) { result.emplace(std::move(value)); });
    loop.poll();
    loop.restart();
    return result;
  }
  Or<> serve(const std::shared_ptr<Call>& of) { return done(tasks.serve(*of)).value(); }

  Tasks::Work waiting() {
    return [this](std::shared_ptr<Call> of) { return wait_for_it(*this, std::move(of)); };
  }
  static Task<Or<>> wait_for_it(TasksTest& test, std::shared_ptr<Call> of) {
    while (!test.finish && !of->cancelled()) co_await of->changed().wait();
    if (of->cancelled()) ++test.ended;
    co_return json::object{{"content", json::array()}};
  }
  static Task<Or<>> ask(std::shared_ptr<Call> of) {
    std::vector<Question> questions{elicitation("k", "Well?", {})};
    auto said = co_await of->ask(std::move(questions));
    if (!said) co_return said.error();
    co_return json::object{{"said", *said->at("k")}};
  }
  static Task<Or<>> fail(std::shared_ptr<Call>) {
    throw std::runtime_error("out of paper");
    co_return json::object();
  }

  std::string begun(Tasks::Work work, Revision revision = Revision::v2025_11_25) {
    const auto from = call("tools/call", {{"name", "x"}}, revision);
    const auto answer = done(tasks.begin(*from, std::move(work), milliseconds(0))).value().value();
    const auto& task = modern(revision) ? answer : answer.at("task").as_object();
    return std::string(task.at("taskId").as_string());
  }
};

TEST_F(TasksTest, IsGoneWithItsOwnersWordAlone) {
  const auto id = begun(waiting());
  auto other = call("tasks/get", {{"taskId", id}});
  EXPECT_EQ(serve(other).value().at("status"), "working");
  other->tenant = "u";
  EXPECT_EQ(serve(other).error().code, Code::invalid_params);
  other->method = "tasks/cancel";
  EXPECT_EQ(serve(other).error().code, Code::invalid_params);
  other->tenant = "t";
  other->key_id = "another";
  EXPECT_EQ(serve(other).error().code, Code::invalid_params);
  EXPECT_EQ(ended, 0);
}

TEST_F(TasksTest, CancellingEndsTheWork) {
  const auto id = begun(waiting());
  EXPECT_EQ(serve(call("tasks/cancel", {{"taskId", id}})).value().at("status"), "cancelled");
  loop.poll();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(serve(call("tasks/get", {{"taskId", id}})).value().at("status"), "cancelled")
      << "what came of it is nothing";
}

TEST_F(TasksTest, ThereAreSoManyOfOneTenant) {
  for (int i = 0; i < 3; ++i) begun(waiting());
  const auto from = call("tools/call", {});
  EXPECT_THAT(done(tasks.begin(*from, waiting(), milliseconds(0))).value().error().message,
              testing::HasSubstr("limit of 3 tasks"));
  from->tenant = "u";
  EXPECT_TRUE(done(tasks.begin(*from, waiting(), milliseconds(0))).value());
}

TEST_F(TasksTest, WhatCameOfThemIsBounded) {
  Tasks small(loop.get_executor(), group, notifier, {.tenant_bytes = 10});
  finish = true;
  const auto from = call("tools/call", {});
  EXPECT_TRUE(small.has_capacity_for(*from));
  EXPECT_TRUE(done(small.begin(*from, waiting(), milliseconds(0))).value());
  // What is too much goes, and does not stand in the way of another.
  EXPECT_TRUE(done(small.serve(*call("tasks/list", {}))).value()->at("tasks").as_array().empty());
  EXPECT_TRUE(small.has_capacity_for(*from));
}

TEST_F(TasksTest, ListsThoseOfTheConnectionWhereCallersHaveNoKey) {
  const auto first = begun(waiting());
  const auto second = begun(waiting());
  auto list = call("tasks/list", {});
  const auto all = serve(list).value().at("tasks").as_array();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].at("taskId").as_string(), first);
  list->connection = "d";
  EXPECT_TRUE(serve(list).value().at("tasks").as_array().empty());
}

TEST_F(TasksTest, AsksWhoeverAsksForIt) {
  const auto id = begun(ask, kModern);
  const auto get = call("tasks/get", {{"taskId", id}}, kModern);
  auto task = serve(get).value();
  EXPECT_EQ(task.at("status"), "input_required");
  EXPECT_EQ(task.at("inputRequests").at("k").at("method"), "elicitation/create");
  EXPECT_TRUE(serve(call("tasks/update", {{"taskId", id}, {"inputResponses", {{"z", 5}}}}, kModern)));
  EXPECT_EQ(serve(get).value().at("status"), "input_required");
  EXPECT_TRUE(
      serve(call("tasks/update", {{"taskId", id}, {"inputResponses", {{"k", {{"action", "decline"}}}}}}, kModern)));
  task = serve(get).value();
  EXPECT_EQ(task.at("status"), "completed");
  EXPECT_EQ(task.at("result").at("said").at("action"), "decline");
  EXPECT_FALSE(task.contains("inputRequests"));
}

TEST_F(TasksTest, WhatEscapesIsAFailure) {
  escaped = 0;
  const auto id = begun(fail, kModern);
  const auto task = serve(call("tasks/get", {{"taskId", id}}, kModern)).value();
  EXPECT_EQ(task.at("status"), "failed");
  EXPECT_EQ(task.at("error").at("code"), -32603);
  EXPECT_EQ(escaped, 1) << "and is told where it is logged";
}

TEST_F(TasksTest, WhatIsQuickIsAnsweredAtOnce) {
  finish = true;
  const auto from = call("tools/call", {}, kModern);
  const auto answer = done(tasks.begin(*from, waiting(), milliseconds(5000))).value().value();
  EXPECT_EQ(answer.at("resultType"), "complete");
  EXPECT_FALSE(answer.contains("taskId"));
}

TEST_F(TasksTest, RevisionsHaveTheirOwnMethods) {
  const auto id = begun(waiting());
  EXPECT_EQ(serve(call("tasks/update", {{"taskId", id}})).error().code, Code::method_not_found);
  EXPECT_EQ(serve(call("tasks/result", {{"taskId", id}}, kModern)).error().code, Code::method_not_found);
  EXPECT_EQ(serve(call("tasks/get", {{"taskId", id}}, Revision::v2025_06_18)).error().code, Code::method_not_found);
  EXPECT_EQ(serve(call("tasks/get", {{"taskId", id}}, kModern)).error().code, Code::invalid_params) << "another era's";
}

TEST_F(TasksTest, ChangesAreToldToWhoListens) {
  const auto id = begun(waiting(), kModern);
  std::vector<std::string> heard;
  const auto subscriber = std::make_shared<Subscriber>();
  subscriber->tenant = "t";
  subscriber->subscriptions.tasks = {id};
  subscriber->tell = [&](std::string_view method, json::object news) {
    heard.push_back(std::string(method) + " " + std::string(news.at("status").as_string()));
  };
  notifier.join(subscriber);
  const auto other = std::make_shared<Subscriber>(*subscriber);
  other->tenant = "u";
  notifier.join(other);
  EXPECT_TRUE(serve(call("tasks/cancel", {{"taskId", id}}, kModern)));
  EXPECT_THAT(heard, testing::ElementsAre("notifications/tasks cancelled"));
}

TEST(Page, GoesThroughAListOnce) {
  const json::array all{1, 2, 3, 4, 5};
  auto first = page_of({}, "n", all, 2).value();
  EXPECT_EQ(json::serialize(first.at("n")), "[1,2]");
  const auto second = page_of({{"cursor", first.at("nextCursor")}}, "n", all, 2).value();
  EXPECT_EQ(json::serialize(second.at("n")), "[3,4]");
  const auto third = page_of({{"cursor", second.at("nextCursor")}}, "n", all, 2).value();
  EXPECT_EQ(json::serialize(third), R"({"n":[5]})");
  for (const auto& wrong : {json::value(""), json::value("x"), json::value(5), json::value(cursor_for("5")),
                            json::value(cursor_for("-1")), json::value(cursor_for("1x")), json::value(cursor_for(""))})
    EXPECT_FALSE(page_of({{"cursor", wrong}}, "n", all, 2)) << json::serialize(wrong);
}

}  // namespace
}  // namespace cove::mcp
