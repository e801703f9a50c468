#include "sys/mountinfo.hpp"

#include <gmock/gmock.h>

namespace cove::sys {
namespace {

TEST(Mountinfo, KeepsRootTargetTypeAndSuperOptions) {
  const auto mounts = parse_mounts(
      "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory\n"
      "41 31 0:38 /slice /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].target, "/sys/fs/cgroup/memory");
  EXPECT_EQ(mounts[0].type, "cgroup");
  EXPECT_EQ(mounts[0].super_options, "rw,memory");
  EXPECT_EQ(mounts[1].root, "/slice");
  EXPECT_EQ(mounts[1].type, "cgroup2");
}

TEST(Mountinfo, UndoesOctalEscapes) {
  const auto mounts = parse_mounts("1 2 0:3 / /a\\040b\\134c rw - tmpfs tmpfs rw\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].target, "/a b\\c");
}

TEST(Mountinfo, SkipsLinesItCannotRead) {
  EXPECT_THAT(parse_mounts("garbage\n1 2 3 4 5 6 7 8\n\n"), testing::IsEmpty());
}

}  // namespace
}  // namespace cove::sys
