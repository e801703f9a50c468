#include "base/nearest.hpp"

#include <gtest/gtest.h>

namespace cove {
namespace {

TEST(Nearest, CountsWhatHasToChange) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("creat", "create"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Nearest, IsTheClosestWordOrNone) {
  const std::vector<std::string> known{"create", "exec", "ls", "rm"};
  EXPECT_EQ(nearest("creat", known), "create");
  EXPECT_EQ(nearest("exce", known), "exec");
  EXPECT_EQ(nearest("lx", known), "ls");
  EXPECT_EQ(nearest("qq", known), "");
  EXPECT_EQ(nearest("somethingelse", known), "");
  EXPECT_EQ(nearest("", known), "");
}

}  // namespace
}  // namespace cove
