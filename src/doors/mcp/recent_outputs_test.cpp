#include "doors/mcp/recent_outputs.hpp"

#include <gtest/gtest.h>

namespace cove::doors::mcp {
namespace {

RecentOutputs::Output output(std::string id, std::string tenant, std::size_t bytes) {
  return {.id = std::move(id), .tenant = std::move(tenant), .out = std::string(bytes, 'x')};
}

TEST(RecentOutputs, AreTheirTenantsAlone) {
  RecentOutputs outputs;
  outputs.keep(output("a", "one", 3));
  ASSERT_NE(outputs.find("one", "a"), nullptr);
  EXPECT_EQ(outputs.find("one", "a")->out, "xxx");
  EXPECT_EQ(outputs.find("two", "a"), nullptr);
  EXPECT_EQ(outputs.find("one", "b"), nullptr);
}

TEST(RecentOutputs, TheOldestOfATenantGoesFirstAndCostsNobodyElse) {
  RecentOutputs outputs({.bytes = 1000, .tenant_bytes = 100});
  outputs.keep(output("other", "two", 90));
  for (const auto* id : {"a", "b", "c"}) outputs.keep(output(id, "one", 50));
  EXPECT_EQ(outputs.find("one", "a"), nullptr);
  EXPECT_NE(outputs.find("one", "b"), nullptr);
  EXPECT_NE(outputs.find("one", "c"), nullptr);
  EXPECT_NE(outputs.find("two", "other"), nullptr);
}

TEST(RecentOutputs, AreBoundedTogetherAndInNumber) {
  RecentOutputs outputs({.bytes = 100, .tenant_bytes = 100, .count = 2});
  outputs.keep(output("a", "one", 60));
  outputs.keep(output("b", "two", 60));
  EXPECT_EQ(outputs.find("one", "a"), nullptr);
  outputs.keep(output("c", "three", 1));
  outputs.keep(output("d", "four", 1));
  EXPECT_EQ(outputs.find("two", "b"), nullptr);
  EXPECT_NE(outputs.find("four", "d"), nullptr);
}

TEST(RecentOutputs, DoNotLastForEver) {
  RecentOutputs outputs({.age = std::chrono::seconds(-1)});
  outputs.keep(output("a", "one", 1));
  EXPECT_EQ(outputs.find("one", "a"), nullptr);
}

TEST(RecentOutputs, HaveNamesNobodyCanGuess) {
  EXPECT_EQ(RecentOutputs::new_id().size(), 32U);
  EXPECT_NE(RecentOutputs::new_id(), RecentOutputs::new_id());
}

}  // namespace
}  // namespace cove::doors::mcp
