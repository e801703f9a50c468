#include "jobs/callbacks.hpp"

#include <gtest/gtest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "store/test_directory.hpp"

namespace cove::jobs {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Tcp = asio::ip::tcp;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

// A store, a receiver on the same loop, and what delivers from one to the other. The path of a callback says what the
// receiver does: /good answers 200, /hang never answers.
class CallbackDelivery : public testing::Test {
 protected:
  CallbackDelivery() : acceptor_(loop_, {asio::ip::address_v4::loopback(), 0}) {
    options_.reach.allowed.push_back({.host = "127.0.0.1", .port = acceptor_.local_endpoint().port()});
    options_.backoff = 10ms;
    options_.timeout = 60s;
    restart();
    tasks_.spawn("receive", receive());
  }

  void restart() {
    callbacks_ = std::make_unique<Callbacks>(
        loop_.get_executor(), tasks_, *store_, client_, [this] { return options_; },
        [this](std::string_view line) { log_ += line; });
    ASSERT_TRUE(callbacks_->remember());
  }
  void deliver() { tasks_.spawn("deliver", callbacks_->deliver()); }

  async::Task<> receive() {
    while (true) {
      auto [failed, socket] = co_await acceptor_.async_accept(kTuple);
      if (failed) co_return;
      tasks_.spawn("answer", answer(std::move(socket)));
    }
  }
  async::Task<> answer(Tcp::socket socket) {
    std::string asked;
    const auto [failed, size] = co_await asio::async_read_until(socket, asio::dynamic_buffer(asked), "}", kTuple);
    if (failed) co_return;
    came_.push_back(asked.substr(5, asked.find(' ', 5) - 5));
    bodies_.push_back(asked.substr(asked.find("\r\n\r\n") + 4));
    if (came_.back().starts_with("/hang")) co_await forever_.wait();
    [[maybe_unused]] const auto sent = co_await asio::async_write(
        socket, asio::buffer(std::string_view("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")), kTuple);
  }
  void add(const std::string& id, const std::string& tenant, const std::string& path, std::size_t size = 1) {
    const auto port = acceptor_.local_endpoint().port();
    callbacks_->add(
        {.id = id, .tenant = tenant, .callback_url = fmt::format("http://127.0.0.1:{}{}/{}", port, path, id)},
        {{"id", id}, {"stdout", std::string(size, 'x')}});
  }
  // Runs the loop until it is so, or too long.
  template <class Condition>
  bool wait_for(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!condition() && std::chrono::steady_clock::now() < until) {
      loop_.restart();
      loop_.run_for(5ms);
    }
    return condition();
  }
  [[nodiscard]] bool came(std::string_view path) const { return std::ranges::count(came_, path) > 0; }
  [[nodiscard]] std::string state_of(std::string_view id) { return store_->callbacks().find(id).value()->state; }

  store::TestDirectory dir_;
  std::unique_ptr<store::Store> store_ = dir_.open();
  asio::io_context loop_{1};
  async::TaskGroup tasks_{loop_.get_executor(), [](std::string_view, std::exception_ptr) {}};
  outbound::Client client_{loop_.get_executor(), {}};
  async::Signal forever_{loop_.get_executor()};
  Tcp::acceptor acceptor_;
  Callbacks::Options options_;
  std::unique_ptr<Callbacks> callbacks_;
  std::vector<std::string> came_;
  std::vector<std::string> bodies_;
  std::string log_;
};

TEST_F(CallbackDelivery, ReadsABodyOnceForEachAttempt) {
  deliver();
  for (int n = 0; n < 20; ++n) add(fmt::format("h{}", n), "one", "/hang");
  for (int n = 0; n < 5; ++n) add(fmt::format("g{}", n), "two", "/good");
  EXPECT_TRUE(wait_for([&] { return callbacks_->counters().delivered == 5 && callbacks_->sending() == 4; }));
  loop_.restart();
  loop_.run_for(300ms);
  EXPECT_EQ(callbacks_->counters().attempts, 9U) << "four that hang, and five";
  EXPECT_EQ(callbacks_->counters().bodies_read, 9U);
}

TEST_F(CallbackDelivery, SleepsWhileNothingCanBeSent) {
  deliver();
  for (int n = 0; n < 20; ++n) add(fmt::format("h{}", n), "one", "/hang");
  EXPECT_TRUE(wait_for([&] { return came_.size() == 4; }));
  loop_.restart();
  EXPECT_EQ(loop_.run_for(300ms), 0U) << "a loop that has something to do does not sleep";
}

TEST_F(CallbackDelivery, ReceiversThatHangHoldUpTheirOwnTenantAlone) {
  options_.max_concurrent = 6;
  deliver();
  for (int n = 0; n < 300; ++n) add(fmt::format("h{}", n), "one", "/hang");
  EXPECT_TRUE(wait_for([&] { return callbacks_->sending() == 4; }));
  add("mine", "two", "/good");
  EXPECT_TRUE(wait_for([&] { return state_of("mine") == "delivered"; }));
  EXPECT_EQ(callbacks_->sending(), 4U);
}

TEST_F(CallbackDelivery, APlaceThatComesFreeGoesToATenantThatHasNone) {
  options_.max_concurrent = 3;
  options_.attempts = 1;
  for (int n = 0; n < 9; ++n) add(fmt::format("a{}", n), "a", "/hang");
  options_.timeout = 300ms;
  deliver();
  EXPECT_TRUE(wait_for([&] { return came_.size() == 3; }));
  options_.timeout = 60s;
  add("b", "b", "/good");
  add("c", "c", "/good");
  EXPECT_TRUE(wait_for([&] { return state_of("b") == "delivered" && state_of("c") == "delivered"; }));
  EXPECT_EQ(std::set<std::string>(came_.begin() + 3, came_.begin() + 5), (std::set<std::string>{"/good/b", "/good/c"}));
}

TEST_F(CallbackDelivery, TooManyOfATenantAreRefusedUntilOneIsOver) {
  options_.pending = {.tenant = {.count = 3, .bytes = 1 << 20}, .all = {.count = 5, .bytes = 1 << 20}};
  options_.attempts = 1;
  options_.timeout = 300ms;
  for (const auto* id : {"h1", "h2"}) add(id, "one", "/hang");
  EXPECT_TRUE(callbacks_->admit("one", {.of_tenant = 0, .of_all = 0}));
  const auto refused = callbacks_->admit("one", {.of_tenant = 1, .of_all = 1});
  ASSERT_FALSE(refused) << "one more will come of an execution that has not ended";
  EXPECT_EQ(refused.error().code, Errc::quota);
  EXPECT_NE(refused.error().message.find("callbacks.tenant_pending"), std::string::npos);
  EXPECT_TRUE(callbacks_->admit("two", {.of_tenant = 0, .of_all = 1}));
  EXPECT_EQ(callbacks_->admit("two", {.of_tenant = 0, .of_all = 3}).error().code, Errc::unavailable);
  EXPECT_EQ(callbacks_->counters().refused, 2U);

  deliver();
  EXPECT_TRUE(wait_for([&] { return callbacks_->sending() == 2; }));
  const auto again = callbacks_->admit("one", {.of_tenant = 1, .of_all = 1});
  ASSERT_FALSE(again);
  EXPECT_LE(again.error().retry_after, 300ms);
  EXPECT_GT(again.error().retry_after, 0ms);
  loop_.restart();
  loop_.run_for(again.error().retry_after + 50ms);
  EXPECT_TRUE(callbacks_->admit("one", {.of_tenant = 1, .of_all = 1})) << "as it was told";
}

TEST_F(CallbackDelivery, WhenItIsToldToComeBackCountsEveryAttemptThatIsLeft) {
  options_.pending.tenant.count = 1;
  options_.attempts = 3;
  options_.backoff = 1s;
  options_.timeout = 10s;
  add("h", "one", "/hang");
  const auto refused = callbacks_->admit("one", {});
  ASSERT_FALSE(refused);
  EXPECT_GT(refused.error().retry_after, 32s) << "10 + 1 + 10 + 2 + 10";
  EXPECT_LE(refused.error().retry_after, 33s);
}

TEST_F(CallbackDelivery, BytesAreBoundedByLeavingOutputOut) {
  options_.pending = {.tenant = {.count = 100, .bytes = 10'000}, .all = {.count = 100, .bytes = 1 << 20}};
  add("large", "one", "/good", 9'000);
  add("short", "one", "/good", 9'000);
  EXPECT_LT(callbacks_->pending().bytes, 10'000U);
  EXPECT_EQ(callbacks_->counters().shortened, 1U);
  EXPECT_NE(store_->callbacks().body("short").value()->find(R"("omitted":["stdout"])"), std::string::npos);
  EXPECT_TRUE(callbacks_->admit("one", {}));
  add("last", "one", "/good", 2'000);
  EXPECT_FALSE(callbacks_->admit("one", {}));
  deliver();
  EXPECT_TRUE(wait_for([&] { return callbacks_->counters().delivered == 3; }));
  EXPECT_EQ(callbacks_->pending(), Amount{}) << "given back";
  EXPECT_TRUE(callbacks_->admit("one", {}));
}

TEST_F(CallbackDelivery, WhatIsPendingIsCountedAgainAfterARestart) {
  add("a", "one", "/good", 100);
  add("b", "two", "/good", 100);
  const auto before = callbacks_->pending();
  restart();
  EXPECT_EQ(callbacks_->pending(), before);
  EXPECT_EQ(before.count, 2U);
  deliver();
  EXPECT_TRUE(wait_for([&] { return came("/good/a") && came("/good/b"); }));
  EXPECT_TRUE(wait_for([&] { return callbacks_->pending() == Amount{}; }));
}

}  // namespace
}  // namespace cove::jobs
