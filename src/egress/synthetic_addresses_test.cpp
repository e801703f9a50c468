#include "egress/synthetic_addresses.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "egress/port_groups.hpp"

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;
using Clock = SyntheticAddresses::Clock;

TEST(SyntheticAddresses, ANameKeepsItsAddress) {
  SyntheticAddresses table;
  const auto now = Clock::now();
  const auto a = table.address_of("a.test", 0, now).value();
  const auto b = table.address_of("b.test", 0, now).value();
  EXPECT_EQ(a.to_string(), "198.18.0.1");
  EXPECT_EQ(b.to_string(), "198.18.0.2");
  EXPECT_EQ(table.address_of("a.test", 0, now), a);
  EXPECT_EQ(table.name_of(a), "a.test");
  EXPECT_EQ(table.address_of("a.test", 15, now).value().to_string(), "198.18.240.1");
  EXPECT_EQ(table.size(), 3U);
}

TEST(SyntheticAddresses, AnAddressThatWasNotHandedOutStandsForNothing) {
  SyntheticAddresses table;
  (void)table.address_of("a.test", 0, Clock::now());
  for (const char* text : {"198.18.0.0", "198.18.0.2", "198.18.16.1", "198.17.255.255", "198.19.0.1", "1.1.1.1"})
    EXPECT_FALSE(table.name_of(ip::make_address_v4(text))) << text;
}

TEST(SyntheticAddresses, AFullBlockForgetsTheOldestThatNobodyUses) {
  SyntheticAddresses table;
  auto now = Clock::now() + std::chrono::hours(1);
  for (std::uint32_t i = 0; i < kBlockSize - 1; ++i) ASSERT_TRUE(table.address_of(fmt::format("n{}.test", i), 3, now));
  EXPECT_FALSE(table.address_of("new.test", 3, now)) << "everything was handed out a moment ago";
  EXPECT_TRUE(table.address_of("new.test", 4, now));

  now += SyntheticAddresses::kKept;
  const auto first = table.address_of("n0.test", 3, now).value();  // asked again: not the oldest any more
  const auto used = table.address_of("n1.test", 3, now - SyntheticAddresses::kKept).value();
  const auto use = table.use(used);
  const auto taken = table.address_of("new.test", 3, now).value();
  EXPECT_NE(taken, first);
  EXPECT_NE(taken, used);
  EXPECT_EQ(table.name_of(taken), "new.test");
  EXPECT_EQ(table.name_of(first), "n0.test");
  EXPECT_EQ(table.name_of(used), "n1.test");
  EXPECT_LT(table.size(), 2 * kBlockSize);
}

}  // namespace
}  // namespace cove::egress
