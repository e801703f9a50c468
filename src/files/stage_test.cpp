#include "files/stage.hpp"

#include <gmock/gmock.h>

#include "files/scratch.hpp"

namespace cove::files {
namespace {

std::string record(std::string_view path, std::string_view content) {
  return fmt::format("{} {}\n{}{}", content.size(), path.size(), path, content);
}

Result<Staged> staged(const Scratch& scratch, const std::string& stream) {
  return stage(stream_of(stream).get(), scratch.path(), StagedTime::zero);
}

TEST(Stage, MakesFilesAndTheDirectoriesAboveThem) {
  const Scratch scratch;
  const auto done = staged(scratch, record("a.txt", "one\n") + record("d/e/b c", "") + record("d/f", "x") + "end\n");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->files, 3U);
  EXPECT_EQ(done->bytes, 5U);
  EXPECT_EQ(scratch.tree(), "a.txt d/ d/e/ d/e/b c d/f");
  EXPECT_EQ(scratch.content("a.txt"), "one\n");
  struct stat st{};
  ASSERT_EQ(::stat(scratch.at("a.txt").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0644U);
  EXPECT_EQ(st.st_mtim.tv_sec, 0);
  ASSERT_EQ(::stat(scratch.at("d/e").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0755, 0755U);
}

TEST(Stage, TheLaterOfTwoWithOneNameStays) {
  const Scratch scratch;
  ASSERT_TRUE(staged(scratch, record("a", "first") + record("a", "2nd") + "end\n"));
  EXPECT_EQ(scratch.content("a"), "2nd");
}

TEST(Stage, WorksThroughNoLink) {
  const Scratch scratch;
  const Scratch outside;
  scratch.link("way", outside.path());
  scratch.link("file", outside.at("target"));
  EXPECT_FALSE(staged(scratch, record("way/x", "1") + "end\n"));
  EXPECT_EQ(outside.tree(), "");
  ASSERT_TRUE(staged(scratch, record("file", "1") + "end\n"));
  EXPECT_EQ(outside.tree(), "") << "the link is replaced, not followed";
  EXPECT_EQ(scratch.content("file"), "1");
}

struct Bad {
  const char* name;
  std::string stream;
};
class BadStream : public testing::TestWithParam<Bad> {};

TEST_P(BadStream, IsRefused) {
  const Scratch scratch;
  EXPECT_FALSE(staged(scratch, GetParam().stream));
}

INSTANTIATE_TEST_SUITE_P(, BadStream,
                         testing::ValuesIn(std::to_array<Bad>({
                             {"WithoutAnEnd", record("a", "x")},
                             {"CutInTheContent", "5 1\na12"},
                             {"CutInThePath", "5 9\na12"},
                             {"NoNumbers", "x y\nend\n"},
                             {"LongPath", "0 99999\n" + std::string(99999, 'a') + "end\n"},
                             {"LongLine", std::string(1000, '1') + "\n"},
                             {"UpAndOut", record("../a", "") + "end\n"},
                             {"NoPath", record("", "") + "end\n"},
                             {"FileThenDirectory", record("a", "") + record("a/b", "") + "end\n"},
                             {"DirectoryThenFile", record("a/b", "") + record("a", "") + "end\n"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cove::files
