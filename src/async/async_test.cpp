#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "async/deadline.hpp"
#include "async/gate.hpp"
#include "async/signal.hpp"
#include "async/task_group.hpp"

namespace cove::async {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

struct Async : testing::Test {
  boost::asio::io_context io{1};
  std::vector<std::string> escaped;
  TaskGroup group{io.get_executor(), [this](std::string_view name, std::exception_ptr) { escaped.emplace_back(name); }};

  void run() { io.run_for(5s); }
};

Task<> wait_and_tell(Signal& signal, std::string& told, std::string word) {
  co_await signal.wait();
  told += word;
}

TEST_F(Async, SignalWakesAllWhoWait) {
  Signal signal(io.get_executor());
  std::string told;
  group.spawn("a", wait_and_tell(signal, told, "a"));
  group.spawn("b", wait_and_tell(signal, told, "b"));
  io.poll();
  EXPECT_EQ(told, "");
  signal.notify_all();
  run();
  EXPECT_EQ(told.size(), 2U);
  EXPECT_EQ(group.size(), 0U);
}

TEST_F(Async, SignalRemembersNothing) {
  Signal signal(io.get_executor());
  signal.notify_all();
  std::optional<bool> woken;
  auto task = [](Signal& s, std::optional<bool>& out) -> Task<> {
    out = co_await s.wait_until(steady_clock::now() + 5ms);
  };
  group.spawn("late", task(signal, woken));
  run();
  EXPECT_EQ(woken, false);
}

TEST_F(Async, SignalThatIsDestroyedEndsItsWaiters) {
  std::optional<Signal> signal(std::in_place, io.get_executor());
  std::string told;
  group.spawn("waiter", wait_and_tell(*signal, told, "woken"));
  io.poll();
  signal.reset();
  run();
  EXPECT_EQ(told, "");
  EXPECT_EQ(escaped, std::vector<std::string>{"waiter"});
}

TEST_F(Async, CancelledWaiterLeavesTheSignal) {
  Signal signal(io.get_executor());
  std::string told;
  group.spawn("waiter", wait_and_tell(signal, told, "woken"));
  io.poll();
  group.cancel();
  run();
  signal.notify_all();
  EXPECT_EQ(told, "");
  EXPECT_TRUE(escaped.empty());
  EXPECT_EQ(group.size(), 0U);
}

TEST_F(Async, ContextMayGoWithWaitersInside) {
  auto context = std::make_unique<boost::asio::io_context>(1);
  Signal signal(context->get_executor());
  std::string told;
  boost::asio::co_spawn(*context, wait_and_tell(signal, told, "woken"), boost::asio::detached);
  context->poll();
  // The Signal holds an executor of a context that is gone: it may be destroyed, not used.
  context.reset();
  EXPECT_EQ(told, "");
}

TEST_F(Async, GroupTellsWhatEscapes) {
  auto bad = []() -> Task<> {
    throw std::runtime_error("bad");
    co_return;
  };
  group.spawn("bad", bad());
  bool joined = false;
  auto join = [](TaskGroup& g, bool& out) -> Task<> {
    co_await g.join();
    out = true;
  };
  boost::asio::co_spawn(io, join(group, joined), boost::asio::detached);
  run();
  EXPECT_TRUE(joined);
  EXPECT_EQ(escaped, std::vector<std::string>{"bad"});
}

TEST_F(Async, CancelReachesTasksThatHaveNotStarted) {
  bool ran = false;
  auto sleeper = [](bool& out) -> Task<> {
    co_await sleep_for(10s);
    out = true;
  };
  group.spawn("sleeper", sleeper(ran));
  group.cancel();
  run();
  EXPECT_FALSE(ran);
  EXPECT_EQ(group.size(), 0U);
}

TEST_F(Async, GroupMayGoBeforeItsTasks) {
  auto other = std::make_unique<TaskGroup>(io.get_executor(), nullptr);
  auto sleeper = []() -> Task<> { co_await sleep_for(10s); };
  other->spawn("sleeper", sleeper());
  io.poll();
  other.reset();
  const auto before = steady_clock::now();
  run();
  EXPECT_LT(steady_clock::now() - before, 1s);
}

Task<> wait_empty(Gate& gate, steady_clock::duration patience, std::optional<bool>& empty) {
  empty = co_await gate.wait_empty(steady_clock::now() + patience);
}

TEST_F(Async, GateIsEmptyWhenTheLastPassIsGone) {
  Gate gate(io.get_executor());
  std::optional<Gate::Pass> first(gate.enter());
  std::optional<Gate::Pass> second(std::move(*first));  // a pass that was moved from counts no more
  first.reset();
  EXPECT_EQ(gate.inside(), 1U);
  std::optional<bool> empty;
  group.spawn("wait", wait_empty(gate, 5s, empty));
  io.poll();
  EXPECT_FALSE(empty.has_value());
  second.reset();
  run();
  EXPECT_EQ(empty, true);
}

TEST_F(Async, GateStopsWaitingWhenTheTimeHasPassedOrItIsInterrupted) {
  Gate gate(io.get_executor());
  const auto pass = gate.enter();
  std::optional<bool> late;
  group.spawn("late", wait_empty(gate, 1ms, late));
  run();
  EXPECT_EQ(late, false);
  io.restart();
  std::optional<bool> interrupted;
  group.spawn("interrupted", wait_empty(gate, 1h, interrupted));
  io.poll();
  gate.interrupt();
  run();
  EXPECT_EQ(interrupted, false);
}

TEST_F(Async, GateThatIsClosedStillCounts) {
  Gate gate(io.get_executor());
  EXPECT_FALSE(gate.closed());
  gate.close();
  EXPECT_TRUE(gate.closed());
  const auto pass = gate.enter();
  EXPECT_EQ(gate.inside(), 1U);
}

}  // namespace
}  // namespace cove::async
