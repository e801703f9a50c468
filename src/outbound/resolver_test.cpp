#include "outbound/resolver.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <map>
#include <mutex>

#include "async/task_group.hpp"

namespace cove::outbound {
namespace {

using namespace std::chrono_literals;

// Names that begin with "hang" are answered when the test says so; all others at once, with 192.0.2.1.
class Lookups : public testing::Test {
 protected:
  ~Lookups() override { release(); }

  Resolver& make(Resolver::Options options) {
    resolver_ = std::make_unique<Resolver>(loop_.get_executor(), options,
                                           [this](const std::string& host, auto) { return look_up(host); });
    return *resolver_;
  }
  Result<Addresses> look_up(const std::string& host) {
    std::unique_lock lock(mutex_);
    if (host.starts_with("hang")) changed_.wait(lock, [this] { return released_; });
    return Addresses{boost::asio::ip::make_address("192.0.2.1")};
  }
  void release() {
    {
      const std::scoped_lock lock(mutex_);
      released_ = true;
    }
    changed_.notify_all();
  }
  async::Task<> ask(std::string host, std::string tenant, std::chrono::milliseconds patience) {
    const auto found = co_await resolver_->resolve(host, tenant, std::chrono::steady_clock::now() + patience);
    said_[host] = found ? "found" : found.error().message;
  }
  void begin(const std::string& host, const std::string& tenant, std::chrono::milliseconds patience = 60s) {
    tasks_.spawn("ask", ask(host, tenant, patience));
    loop_.restart();
    loop_.poll();
  }
  bool wait_for(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!condition() && std::chrono::steady_clock::now() < until) {
      loop_.restart();
      loop_.run_for(5ms);
    }
    return condition();
  }
  bool answered(const std::string& host) {
    return wait_for([&] { return said_.contains(host); });
  }

  boost::asio::io_context loop_{1};
  async::TaskGroup tasks_{loop_.get_executor(), [](std::string_view, std::exception_ptr) {}};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
  std::unique_ptr<Resolver> resolver_;  // waits for its threads, which use the above
  std::map<std::string, std::string> said_;
};

TEST_F(Lookups, OfOneTenantThatHangHoldUpNobodyElses) {
  auto& resolver = make({.tenant_running = 2, .max_running = 3});
  for (int n = 0; n < 20; ++n) begin(fmt::format("hang{}", n), "one");
  EXPECT_EQ(resolver.running(), 2U);
  EXPECT_EQ(resolver.waiting(), 18U);
  begin("other.example", "two");
  EXPECT_TRUE(answered("other.example"));
  EXPECT_EQ(said_["other.example"], "found");
  begin("mine.example", "one");
  EXPECT_FALSE(said_.contains("mine.example")) << "the tenant's own wait";
  release();
  EXPECT_TRUE(answered("mine.example"));
  EXPECT_TRUE(wait_for([&] { return resolver.running() == 0; }));
  EXPECT_EQ(resolver.waiting(), 0U);
}

TEST_F(Lookups, ThatWaitAreBoundedForATenantAndInAll) {
  auto& resolver = make({.tenant_running = 1, .max_running = 2, .tenant_waiting = 2, .max_waiting = 3});
  for (int n = 0; n < 3; ++n) begin(fmt::format("hang{}", n), "one");
  begin("more.example", "one");
  EXPECT_NE(said_["more.example"].find("outbound.tenant_lookup_queue"), std::string::npos);
  for (int n = 3; n < 5; ++n) begin(fmt::format("hang{}", n), "two");
  EXPECT_EQ(resolver.waiting(), 3U);
  begin("third.example", "three");
  EXPECT_NE(said_["third.example"].find("outbound.max_lookup_queue"), std::string::npos);
  EXPECT_EQ(resolver.counters().refused, 2U);
}

TEST_F(Lookups, ThatNobodyWaitsForAnyLongerLeaveTheLine) {
  auto& resolver = make({.tenant_running = 1, .max_running = 1});
  begin("hang", "one", 50ms);
  begin("late.example", "one", 50ms);
  EXPECT_TRUE(answered("late.example"));
  EXPECT_NE(said_["late.example"].find("in time"), std::string::npos);
  EXPECT_TRUE(answered("hang"));
  EXPECT_EQ(resolver.waiting(), 0U);
  EXPECT_EQ(resolver.running(), 1U) << "its thread is still at it";
  EXPECT_EQ(resolver.counters().begun, 1U);
  EXPECT_EQ(resolver.counters().timed_out, 2U);
  release();
  EXPECT_TRUE(wait_for([&] { return resolver.running() == 0; }));
}

TEST_F(Lookups, TakeNoLongerThanTheOptionsSayWhateverTheCallerWaits) {
  make({.timeout = 50ms});
  begin("hang", "one", 60s);
  EXPECT_TRUE(answered("hang"));
  EXPECT_NE(said_["hang"].find("in time"), std::string::npos);
}

TEST_F(Lookups, ThatHangOutliveTheirResolver) {
  make({});
  begin("hang", "one");
  release();
  resolver_.reset();
  loop_.restart();
  loop_.run_for(20ms);
}

TEST_F(Lookups, OfAddressesNeedNone) {
  auto& resolver = make({});
  begin("203.0.113.7", "one");
  EXPECT_EQ(said_["203.0.113.7"], "found");
  EXPECT_EQ(resolver.counters().begun, 0U);
}

TEST(SystemResolver, KnowsLocalhostAndNothingInvalid) {
  EXPECT_TRUE(Resolver::ask_system("localhost", 5s));
  EXPECT_FALSE(Resolver::ask_system("nothing.invalid", 1s));
}

}  // namespace
}  // namespace cove::outbound
