#include "store/spool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/io.hpp"
#include "store/test_directory.hpp"

namespace cove::store {
namespace {

class SpoolTest : public testing::Test {
 protected:
  [[nodiscard]] Spool open(std::uint64_t reserve = 0) const {
    return Spool(open_at(AT_FDCWD, directory_.path(), O_RDONLY | O_DIRECTORY).value(), reserve);
  }
  [[nodiscard]] std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory_.path())) ++count;
    return count;
  }
  TestDirectory directory_;
};

TEST_F(SpoolTest, GivesBackWhatWasAppendedFromAnyPlace) {
  auto spool = open();
  auto file = spool.create().value();
  ASSERT_TRUE(file.append("hello "));
  EXPECT_EQ(file.read(0, 100).value(), "hello ") << "also while more is written";
  ASSERT_TRUE(file.append("world"));
  file.seal();
  EXPECT_EQ(file.size(), 11U);
  EXPECT_EQ(file.read(4, 4).value(), "o wo");
  EXPECT_EQ(file.read(11, 4).value(), "");
  EXPECT_EQ(file.read(UINT64_MAX, 4).value(), "");
}

TEST_F(SpoolTest, AFileGoesWithItsObjectAlsoAfterTheSpool) {
  std::optional<Spool::File> file;
  {
    auto spool = open();
    file.emplace(spool.create().value());
  }
  ASSERT_TRUE(file->append("x"));
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(file->read(0, 1).value(), "x");
  auto moved = std::move(*file);
  file.reset();
  EXPECT_EQ(moved.read(0, 1).value(), "x");
  {
    const auto end = std::move(moved);
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(SpoolTest, ASweepTakesWhatACrashLeftAndNothingElse) {
  std::ofstream(directory_.path() + "/.spool-0123") << "left";
  std::ofstream(directory_.path() + "/mine") << "kept";
  auto spool = open();
  EXPECT_EQ(spool.sweep().value(), 1U);
  EXPECT_EQ(files(), 1U);
}

TEST_F(SpoolTest, LeavesItsReserveFree) {
  EXPECT_TRUE(open().has_room(1));
  EXPECT_FALSE(open(UINT64_MAX).has_room(1));
}

}  // namespace
}  // namespace cove::store
