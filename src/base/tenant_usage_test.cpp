#include "base/tenant_usage.hpp"

#include <gtest/gtest.h>

namespace cove {
namespace {

TEST(TenantUsage, CountsForEachTenantAndForAll) {
  TenantUsage usage;
  usage.charge("one", {.count = 1, .bytes = 10});
  usage.charge("one", {.count = 1, .bytes = 5});
  usage.charge("two", {.count = 1, .bytes = 100});
  EXPECT_EQ(usage.of("one"), (Amount{.count = 2, .bytes = 15}));
  EXPECT_EQ(usage.of("nobody"), Amount{});
  EXPECT_EQ(usage.all(), (Amount{.count = 3, .bytes = 115}));
  usage.release("one", {.count = 1, .bytes = 10});
  EXPECT_EQ(usage.of("one"), (Amount{.count = 1, .bytes = 5}));
  EXPECT_EQ(usage.all(), (Amount{.count = 2, .bytes = 105}));
}

TEST(TenantUsage, NeverFallsBelowNothing) {
  TenantUsage usage;
  usage.release("one", {.count = 1, .bytes = 1});
  usage.charge("one", {.count = 1, .bytes = 1});
  usage.release("one", {.count = 5, .bytes = 5});
  EXPECT_EQ(usage.all(), Amount{});
  EXPECT_EQ(usage.largest_holder(Bound::all_count), "");
}

TEST(TenantUsage, NamesTheBoundThatWouldBePassed) {
  const UsageBounds bounds{.tenant = {.count = 2, .bytes = 10}, .all = {.count = 3, .bytes = 15}};
  TenantUsage usage;
  EXPECT_EQ(usage.passed("one", {.count = 2, .bytes = 10}, bounds), Bound::none);
  EXPECT_EQ(usage.passed("one", {.count = 3, .bytes = 0}, bounds), Bound::tenant_count);
  EXPECT_EQ(usage.passed("one", {.count = 1, .bytes = 11}, bounds), Bound::tenant_bytes);
  usage.charge("one", {.count = 2, .bytes = 8});
  EXPECT_EQ(usage.passed("two", {.count = 2, .bytes = 1}, bounds), Bound::all_count);
  EXPECT_EQ(usage.passed("two", {.count = 1, .bytes = 8}, bounds), Bound::all_bytes);
  EXPECT_EQ(usage.passed("two", kUnbounded, {}), Bound::all_count) << "a sum that does not fit is over every bound";
  usage.charge("one", {.count = 1, .bytes = 0});
  EXPECT_EQ(usage.passed("one", {}, bounds), Bound::tenant_count) << "a bound that was lowered is passed already";
}

TEST(TenantUsage, KnowsWhoHoldsTheMost) {
  TenantUsage usage;
  EXPECT_EQ(usage.largest_holder(Bound::all_bytes), "");
  usage.charge("many", {.count = 9, .bytes = 9});
  usage.charge("large", {.count = 1, .bytes = 90});
  EXPECT_EQ(usage.largest_holder(Bound::all_count), "many");
  EXPECT_EQ(usage.largest_holder(Bound::all_bytes), "large");
  usage.release("large", {.count = 1, .bytes = 90});
  EXPECT_EQ(usage.largest_holder(Bound::all_bytes), "many");
}

}  // namespace
}  // namespace cove
