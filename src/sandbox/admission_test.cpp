#include "sandbox/admission.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "async/task_group.hpp"

namespace cove::sandbox {
namespace {

using Share = Admission::Share;

struct Fixture {
  explicit Fixture(Admission::Options options) : admission(loop.get_executor(), options, &gate) {}
  // Enters, notes it, and stays until the loop is asked to let it go.
  async::Task<> visit(std::string tenant, Share share) {
    auto ticket = co_await admission.enter(tenant, share);
    if (!ticket) {
      refused.push_back(ticket.error().code);
      co_return;
    }
    entered += tenant;
    while (places == 0) co_await leave.wait();
    --places;
    left += tenant;
  }
  void come(const std::string& tenant, Share share = {}) {
    tasks.spawn("visit", visit(tenant, share));
    turn();
  }
  void let_go(int count) {
    places += count;
    leave.notify_all();
    turn();
  }
  void turn() {
    loop.restart();
    loop.poll();
  }
  boost::asio::io_context loop{1};
  async::TaskGroup tasks{loop.get_executor(), [](std::string_view, std::exception_ptr) { FAIL(); }};
  async::Gate gate{loop.get_executor()};
  Admission admission;
  async::Signal leave{loop.get_executor()};
  int places = 0;
  std::string entered;
  std::string left;
  std::vector<Errc> refused;
};

TEST(Admission, LetsInAsManyAsThereArePlacesAndTheRestWait) {
  Fixture f({.at_once = 2});
  for (int i = 0; i < 3; ++i) f.come("a");
  EXPECT_EQ(f.entered, "aa");
  EXPECT_EQ(f.admission.waiting(), 1U);
  EXPECT_EQ(f.gate.inside(), 3U) << "a shutdown waits for who waits, too";
  f.let_go(1);
  EXPECT_EQ(f.entered, "aaa");
  f.let_go(2);
  EXPECT_EQ(f.admission.inside(), 0U);
  EXPECT_EQ(f.gate.inside(), 0U);
}

TEST(Admission, TenantsTakeTurnsHoweverLongALineIs) {
  Fixture f({.at_once = 1});
  for (int i = 0; i < 6; ++i) f.come("a");
  f.come("b");
  f.come("b");
  for (int i = 0; i < 8; ++i) f.let_go(1);
  EXPECT_EQ(f.entered.substr(0, 5), "ababa");
  EXPECT_EQ(f.entered.size(), 8U);
}

TEST(Admission, NoTenantTakesEveryPlaceAlone) {
  Fixture f({.at_once = 8});
  for (int i = 0; i < 10; ++i) f.come("a");
  EXPECT_EQ(f.entered, "aaaaaaa");
  f.come("b");
  EXPECT_EQ(f.entered, "aaaaaaab");
  f.let_go(11);
}

TEST(Admission, ATenantsOwnLimitHoldsItAloneBack) {
  Fixture f({.at_once = 10});
  f.come("a", {.at_once = 1});
  f.come("a", {.at_once = 1});
  f.come("b");
  EXPECT_EQ(f.entered, "ab");
  f.let_go(3);
  EXPECT_EQ(f.entered, "aba");
}

TEST(Admission, RefusesWhatTheMinuteDoesNotHold) {
  Fixture f({.at_once = 10});
  for (int i = 0; i < 4; ++i) f.come("a", {.per_minute = 3});
  EXPECT_EQ(f.entered, "aaa");
  ASSERT_EQ(f.refused.size(), 1U);
  EXPECT_EQ(f.refused[0], Errc::quota);
  f.come("b");
  EXPECT_EQ(f.entered, "aaab");
  f.let_go(4);
}

TEST(Admission, RefusesALineThatIsTooLong) {
  Fixture f({.at_once = 1, .waiting = 1});
  for (int i = 0; i < 3; ++i) f.come("a");
  ASSERT_EQ(f.refused.size(), 1U);
  EXPECT_EQ(f.refused[0], Errc::quota);
  f.let_go(2);
}

TEST(Admission, WhoWaitsInVainIsToldSo) {
  Fixture f({.at_once = 1, .waiting = 5, .patience = std::chrono::milliseconds(1)});
  f.come("a");
  f.come("a");
  f.loop.restart();
  f.loop.run_for(std::chrono::milliseconds(20));
  ASSERT_EQ(f.refused.size(), 1U);
  EXPECT_EQ(f.refused[0], Errc::unavailable);
  EXPECT_EQ(f.admission.waiting(), 0U);
  f.let_go(1);
}

TEST(Admission, MayLetOneTenantTakeEveryPlace) {
  Fixture f({.at_once = 8, .keeps_some_free = false});
  for (int i = 0; i < 9; ++i) f.come("a");
  EXPECT_EQ(f.admission.inside(), 8U);
  f.let_go(9);
}

TEST(Admission, WhoDoesNotWantToWaitIsToldAtOnce) {
  Fixture f({.at_once = 1, .patience = std::chrono::milliseconds(0)});
  f.come("a");
  f.come("a");
  for (int i = 0; i < 100 && f.refused.empty(); ++i) f.turn();
  EXPECT_EQ(f.refused, std::vector<Errc>{Errc::unavailable});
  f.let_go(1);
}

}  // namespace
}  // namespace cove::sandbox
