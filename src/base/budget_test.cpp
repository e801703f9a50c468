#include "base/budget.hpp"

#include <gtest/gtest.h>

namespace cove {
namespace {

TEST(Budget, RefusesWhatIsOverTheShareOfOneOwnerOrOverTheTotal) {
  const Budget budget({.of_one = 100, .of_all = 150});
  auto alice = budget.open("alice");
  EXPECT_TRUE(alice.grow(60));
  const auto over = alice.grow(41);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::quota);
  EXPECT_EQ(alice.bytes(), 60U);
  auto bob = budget.open("bob");
  EXPECT_TRUE(bob.grow(90));
  const auto full = alice.grow(1);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::over_limit);
  EXPECT_EQ(budget.held(), 150U);
  EXPECT_EQ(budget.refused(), 2U);
}

TEST(Budget, GivesBackWhenTheChargeIsGoneAlsoAfterTheBudget) {
  Budget::Charge outlives;
  {
    const Budget budget({.of_one = 10, .of_all = 10});
    {
      const auto first = budget.take("alice", 10);
      ASSERT_TRUE(first);
      EXPECT_FALSE(budget.take("alice", 1));
    }
    EXPECT_EQ(budget.held(), 0U);
    auto second = budget.take("alice", 10);
    ASSERT_TRUE(second);
    outlives = std::move(*second);
    EXPECT_EQ(budget.held(), 10U);
    outlives.release();
    EXPECT_EQ(budget.held(), 0U);
    EXPECT_TRUE(outlives.grow(10));
  }
  EXPECT_EQ(outlives.bytes(), 10U);
}

TEST(Budget, CountsTheChargesOfOneOwnerTogether) {
  const Budget budget({.of_one = 10, .of_all = 0});
  auto one = budget.open("alice");
  auto two = budget.open("alice");
  EXPECT_TRUE(one.grow(6));
  EXPECT_FALSE(two.grow(5));
  one = budget.open("alice");
  EXPECT_TRUE(two.grow(10));
}

TEST(Budget, ChargesOfNoBudgetHaveNoLimit) {
  Budget::Charge free;
  EXPECT_TRUE(free.grow(1ULL << 40));
}

}  // namespace
}  // namespace cove
