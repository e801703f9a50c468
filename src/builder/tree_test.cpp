#include "builder/tree.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace cove::builder {
namespace {

namespace fs = std::filesystem;

class Tree : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/cove-tree-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  void file(const std::string& path, mode_t mode) {
    std::ofstream(root_ / path) << "x";
    ASSERT_EQ(::chmod((root_ / path).c_str(), mode), 0);
  }
  mode_t mode(const std::string& path) {
    struct stat status{};
    return ::lstat((root_ / path).c_str(), &status) == 0 ? status.st_mode & 07777U : ~0U;
  }
  fs::path root_;
};

TEST_F(Tree, DisarmTakesSetuidBitsAndSpecialFilesAndLeavesTheRest) {
  fs::create_directories(root_ / "bin/deep");
  file("bin/su", 04755);
  file("bin/wall", 02755);
  file("bin/deep/plain", 0640);
  ASSERT_EQ(::mkfifo((root_ / "bin/deep/pipe").c_str(), 0644), 0);
  ASSERT_EQ(::chmod((root_ / "bin/deep").c_str(), 03775), 0);
  const auto bytes = disarm(root_);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(mode("bin/su"), 0755U);
  EXPECT_EQ(mode("bin/wall"), 0755U);
  EXPECT_EQ(mode("bin/deep/plain"), 0640U);
  EXPECT_EQ(mode("bin/deep"), 01775U);
  EXPECT_FALSE(fs::exists(fs::symlink_status(root_ / "bin/deep/pipe")));
}

TEST_F(Tree, WalksFollowNoLink) {
  fs::create_directories(root_ / "outside");
  file("outside/su", 04755);
  fs::create_directories(root_ / "tree");
  fs::create_directory_symlink("../outside", root_ / "tree/link");
  fs::create_symlink("../outside/su", root_ / "tree/su");
  std::vector<std::string> seen;
  ASSERT_TRUE(walk(root_ / "tree", [&](const Entry& entry) {
    seen.emplace_back(entry.name);
    return Result<>();
  }));
  EXPECT_EQ(seen.size(), 2U);
  ASSERT_TRUE(disarm(root_ / "tree"));
  EXPECT_EQ(mode("outside/su"), 04755U);
  EXPECT_FALSE(disarm(root_ / "tree/link"));
}

TEST_F(Tree, ATreeThatIsTooDeepIsRefused) {
  fs::path deep = root_;
  for (int i = 0; i < 220; ++i) deep /= "d";
  fs::create_directories(deep);
  const auto bytes = disarm(root_);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Errc::over_limit);
}

TEST_F(Tree, RemovingWhatIsNotThereIsNoError) {
  EXPECT_TRUE(remove_tree(root_ / "nothing"));
}

}  // namespace
}  // namespace cove::builder
