#include "keeper/cores.hpp"

#include <gmock/gmock.h>

namespace cove::keeper {
namespace {

cpu_set_t set_of(std::initializer_list<std::size_t> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const auto core : cores) CPU_SET(core, &set);
  return set;
}

std::vector<int> numbers(const CoreShare& share) {
  std::vector<int> out;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &share.set())) out.push_back(static_cast<int>(core));
  }
  return out;
}

TEST(Cores, ProcessorsAreRoundedUpToWholeCores) {
  Cores cores(set_of({0, 1, 2, 3}));
  EXPECT_EQ(numbers(cores.take(100)).size(), 1U);
  EXPECT_EQ(numbers(cores.take(1000)).size(), 1U);
  EXPECT_EQ(numbers(cores.take(1001)).size(), 2U);
}

TEST(Cores, OnlyTheUsableOnesAreGiven) {
  Cores cores(set_of({3, 70}));
  EXPECT_THAT(numbers(cores.take(1000)), testing::AnyOf(testing::ElementsAre(3), testing::ElementsAre(70)));
}

TEST(Cores, ALimitOfAllOrMoreLeavesTheMaskAlone) {
  Cores two(set_of({0, 1}));
  EXPECT_THAT(numbers(two.take(2000)), testing::IsEmpty());
  EXPECT_THAT(numbers(two.take(64000)), testing::IsEmpty());
  Cores one(set_of({5}));
  EXPECT_THAT(numbers(one.take(1000)), testing::IsEmpty());
  Cores unknown(set_of({}));
  EXPECT_THAT(numbers(unknown.take(1000)), testing::IsEmpty());
}

TEST(Cores, SandboxesSpreadAndAnEndMakesRoom) {
  Cores cores(set_of({0, 1, 2}));
  std::vector<CoreShare> held;
  std::vector<int> count(3);
  for (int i = 0; i < 9; ++i) {
    held.push_back(cores.take(1000));
    ++count[static_cast<std::size_t>(numbers(held.back()).front())];
  }
  EXPECT_THAT(count, testing::ElementsAre(3, 3, 3));
  const auto freed = numbers(held[4]);
  held.erase(held.begin() + 4);
  EXPECT_EQ(numbers(cores.take(1000)), freed);
}

}  // namespace
}  // namespace cove::keeper
