#include "files/snapshot.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "base/sha256.hpp"
#include "files/scratch.hpp"

namespace cove::files {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::string digest(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

struct Taken {
  std::map<std::string, std::string> files;
  std::string end;
};

// Reads the stream back, trusting it.
Taken taken(const Scratch& scratch, const Known& known = {}, const SnapshotLimits& limits = {}) {
  const UniqueFd out(::memfd_create("snapshot", MFD_CLOEXEC));
  const auto done = snapshot(scratch.path(), known, out.get(), limits);
  EXPECT_TRUE(done) << done.error().message;
  ::lseek(out.get(), 0, SEEK_SET);
  const auto text = read_all(out.get()).value_or("");
  std::string_view rest = text;
  const auto line = [&] {
    const auto end = rest.find('\n');
    const std::string found(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    return found;
  };
  Taken result;
  while (!rest.empty()) {
    const auto first = line();
    if (first.starts_with("end")) {
      result.end = first;
      EXPECT_EQ(rest, "");
      break;
    }
    auto& content = result.files[first.substr(1, first.size() - 2)];
    for (auto size = std::stoul(line()); size != 0; size = std::stoul(line())) {
      content += rest.substr(0, size);
      rest.remove_prefix(size);
    }
  }
  return result;
}

TEST(Snapshot, HasEveryNewRegularFileAndNothingElse) {
  const Scratch scratch;
  scratch.file("new", "1");
  scratch.file("empty", "");
  scratch.file(".env", "secret");
  scratch.directory("d");
  scratch.directory("nothing");
  scratch.file("d/__main__.py", "no");
  scratch.file("__main__.py", "no");
  scratch.file("d/deep", std::string(300'000, 'x'));
  scratch.link("link", "new");
  scratch.link("out", "/etc/passwd");
  ASSERT_EQ(::mkfifo(scratch.at("fifo").c_str(), 0600), 0);
  const auto result = taken(scratch);
  EXPECT_THAT(result.files, ElementsAre(Pair(".env", "secret"), Pair("d/deep", std::string(300'000, 'x')),
                                        Pair("empty", ""), Pair("new", "1")));
  EXPECT_EQ(result.end, "end 0");
}

TEST(Snapshot, LeavesOutWhatIsKnownAndUnchanged) {
  const Scratch scratch;
  scratch.file("same", "bytes");
  scratch.file("edited", "after!");
  const auto result = taken(scratch, {{"same", digest("bytes")}, {"edited", digest("before")}, {"gone", digest("x")}});
  EXPECT_THAT(result.files, ElementsAre(Pair("edited", "after!")));
}

TEST(Snapshot, EachHardLinkIsAFile) {
  const Scratch scratch;
  scratch.file("a", "x");
  ASSERT_EQ(::link(scratch.at("a").c_str(), scratch.at("b").c_str()), 0);
  EXPECT_THAT(taken(scratch).files, ElementsAre(Pair("a", "x"), Pair("b", "x")));
}

TEST(Snapshot, ReadsWhatItsOwnerMayNotRead) {
  const Scratch scratch;
  scratch.directory("d");
  scratch.file("d/f", "x");
  ::chmod(scratch.at("d/f").c_str(), 0);
  ::chmod(scratch.at("d").c_str(), 0);
  EXPECT_THAT(taken(scratch).files, ElementsAre(Pair("d/f", "x")));
}

TEST(Snapshot, StopsWhereThereIsNoRoomAndSaysSo) {
  const Scratch scratch;
  scratch.file("a", "12345");
  scratch.file("b", "1234567");
  scratch.file("c", "12345");
  ASSERT_EQ(::truncate(scratch.at("b").c_str(), 1LL << 40), 0);  // sparse
  const auto result = taken(scratch, {}, {.max_bytes = 10});
  EXPECT_THAT(result.files, ElementsAre(Pair("a", "12345"), Pair("c", "12345")));
  EXPECT_EQ(result.end, "end 1");
}

TEST(Snapshot, StopsAfterSoManyFilesAndCountsTheRest) {
  const Scratch scratch;
  for (const auto* name : {"a", "b", "c", "d", "same", "changed"}) scratch.file(name, "1");
  const Known known{{"same", digest("1")}, {"changed", digest("2")}};
  const auto some = taken(scratch, known, {.max_files = 2});
  EXPECT_EQ(some.files.size(), 2U);
  EXPECT_EQ(some.end, "end 3") << "what is unchanged is not left out";
  EXPECT_EQ(taken(scratch, known, {.max_files = 5}).end, "end 0");
}

TEST(Snapshot, ReadsWhatWasKnown) {
  const auto known = read_known(stream_of("aa 3\nx y"
                                          "bb 2\nzz"
                                          "end\n")
                                    .get());
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_THAT(*known, ElementsAre(Pair("x y", "aa"), Pair("zz", "bb")));
  EXPECT_THAT(*read_known(stream_of("end\n").get()), IsEmpty());
  for (const auto* bad : {"", "aa", "aa 3\nx", "aa x\n", "aa 99999\n"})
    EXPECT_FALSE(read_known(stream_of(bad).get())) << bad;
}

}  // namespace
}  // namespace cove::files
