#include "doors/mcp/recent_outputs.hpp"

#include <gtest/gtest.h>

namespace cove::doors::mcp {
namespace {

RecentOutputs::Output output(std::string id, std::string tenant, std::size_t bytes) {
  return {.id = std::move(id), .tenant = std::move(tenant), .out = std::string(bytes, 'x')};
}

constexpr UsageBounds kWide{.tenant = {.count = 100, .bytes = 1000}, .all = {.count = 100, .bytes = 1000}};

TEST(RecentOutputs, AreTheirTenantsAlone) {
  RecentOutputs outputs;
  outputs.keep(output("a", "one", 3), kWide);
  ASSERT_NE(outputs.find("one", "a"), nullptr);
  EXPECT_EQ(outputs.find("one", "a")->out, "xxx");
  EXPECT_EQ(outputs.find("two", "a"), nullptr);
  EXPECT_EQ(outputs.find("one", "b"), nullptr);
}

TEST(RecentOutputs, TheOldestOfATenantGoesFirstAndCostsNobodyElse) {
  auto bounds = kWide;
  bounds.tenant.bytes = 100;
  RecentOutputs outputs;
  outputs.keep(output("other", "two", 90), bounds);
  for (const auto* id : {"a", "b", "c"}) outputs.keep(output(id, "one", 50), bounds);
  EXPECT_EQ(outputs.find("one", "a"), nullptr);
  EXPECT_NE(outputs.find("one", "b"), nullptr);
  EXPECT_NE(outputs.find("one", "c"), nullptr);
  EXPECT_NE(outputs.find("two", "other"), nullptr);
}

TEST(RecentOutputs, ManySmallOnesOfATenantPushOutNobodyElses) {
  auto bounds = kWide;
  bounds.tenant.count = 5;
  RecentOutputs outputs;
  outputs.keep(output("other", "two", 1), bounds);
  for (int n = 0; n < 500; ++n) outputs.keep(output(std::to_string(n), "one", 1), bounds);
  EXPECT_NE(outputs.find("two", "other"), nullptr);
  EXPECT_EQ(outputs.held(), (Amount{.count = 6, .bytes = 6}));
  EXPECT_EQ(outputs.evicted(), 495U);
}

TEST(RecentOutputs, OfAllAreBoundedAndTheLargestHolderLosesFirst) {
  auto bounds = kWide;
  bounds.all = {.count = 3, .bytes = 100};
  RecentOutputs outputs;
  outputs.keep(output("a", "one", 20), bounds);
  outputs.keep(output("b", "two", 60), bounds);
  outputs.keep(output("c", "three", 30), bounds);
  EXPECT_EQ(outputs.find("two", "b"), nullptr) << "by bytes";
  EXPECT_NE(outputs.find("one", "a"), nullptr);
  outputs.keep(output("d", "three", 1), bounds);
  outputs.keep(output("e", "four", 1), bounds);
  EXPECT_EQ(outputs.find("three", "c"), nullptr) << "by number";
  EXPECT_NE(outputs.find("one", "a"), nullptr);
}

TEST(RecentOutputs, DoNotLastForEver) {
  RecentOutputs outputs(std::chrono::seconds(-1));
  outputs.keep(output("a", "one", 1), kWide);
  EXPECT_EQ(outputs.find("one", "a"), nullptr);
  EXPECT_EQ(outputs.held(), Amount{});
}

TEST(RecentOutputs, HaveNamesNobodyCanGuess) {
  EXPECT_EQ(RecentOutputs::new_id().size(), 32U);
  EXPECT_NE(RecentOutputs::new_id(), RecentOutputs::new_id());
}

}  // namespace
}  // namespace cove::doors::mcp
