#include "files/unpack.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <random>
#include <thread>

#include "files/json.hpp"
#include "files/scratch.hpp"

namespace cove::files {
namespace {

using testing::HasSubstr;

Result<Unpacked> unpack_bytes(const Scratch& scratch, std::string_view bytes, const UnpackLimits& limits = {},
                              std::string_view dest = "dest") {
  const auto stream = stream_of(bytes);
  return unpack(stream.get(), scratch.at(dest), limits);
}

// What the refusal says; "" when there was none.
std::string refusal(const Scratch& scratch, std::string_view bytes, const UnpackLimits& limits = {}) {
  const auto unpacked = unpack_bytes(scratch, bytes, limits);
  return unpacked ? "" : unpacked.error().message;
}

struct stat status(const Scratch& scratch, std::string_view name) {
  struct stat st{};
  EXPECT_EQ(::lstat(scratch.at(name).c_str(), &st), 0) << name;
  return st;
}

TEST(Unpack, MakesFilesDirectoriesAndLinks) {
  const Scratch scratch;
  const auto bytes = tar_of({{.name = "./", .type = '5'},
                             {.name = "/a/b/file", .body = "hello"},
                             {.name = "a/empty/", .type = '5'},
                             {.name = "a/link", .type = '2', .target = "../a/b/file"},
                             {.name = "hard", .type = '1', .target = "./a/b/file"}});
  for (const auto& form : {bytes, gzip_of(bytes)}) {
    const auto unpacked = unpack_bytes(scratch, form);
    ASSERT_TRUE(unpacked) << unpacked.error().message;
    EXPECT_EQ(unpacked->files, 3);
    EXPECT_EQ(unpacked->bytes, 5);
    EXPECT_EQ(scratch.tree("dest"), "a/ a/b/ a/b/file a/empty/ a/link->../a/b/file hard");
    EXPECT_EQ(scratch.content("dest/hard"), "hello");
    EXPECT_EQ(status(scratch, "dest/hard").st_nlink, 2);
  }
}

TEST(Unpack, ReadsEveryWayToWriteALongName) {
  const Scratch scratch;
  const std::string name(120, 'n');
  const std::string path = name + "/" + name;
  EXPECT_EQ(refusal(scratch, raw({.name = "././@LongLink", .type = 'L', .body = path + std::string(1, '\0')}) +
                                 tar_of({{.name = "short", .body = "gnu"}})),
            "");
  EXPECT_EQ(scratch.content("dest/" + path), "gnu");
  EXPECT_EQ(refusal(scratch, pax_header(pax_record("comment", "all"), 'g') + pax_header(pax_record("path", path)) +
                                 tar_of({{.name = "short", .body = "pax"}})),
            "");
  EXPECT_EQ(scratch.content("dest/" + path), "pax");
  EXPECT_EQ(refusal(scratch, tar_of({{.name = name.substr(0, 99), .body = "ustar", .prefix = name}})), "");
  EXPECT_EQ(scratch.content("dest/" + name + "/" + name.substr(0, 99)), "ustar");
  EXPECT_EQ(refusal(scratch, raw({.name = "././@LongLink", .type = 'K', .body = path + std::string(1, '\0')}) +
                                 tar_of({{.name = "link", .type = '2', .target = "short"}})),
            "");
  EXPECT_THAT(scratch.tree("dest"), HasSubstr("link->" + path));
}

TEST(Unpack, KeepsNamesAsTheyAreWhateverTheirBytes) {
  const Scratch scratch;
  for (const std::string name : {"é", "new\nline", "\xff\xfe", "C:\\x", "a\\..\\..\\x", " ", "File", "fIle"}) {
    EXPECT_EQ(refusal(scratch, tar_of({{.name = name, .body = name}})), "");
    EXPECT_EQ(scratch.content("dest/" + name), name);
    EXPECT_EQ(refusal(scratch, pax_header(pax_record("path", "pax/" + name)) + tar_of({{.name = "x", .body = name}})),
              "");
    EXPECT_EQ(scratch.content("dest/pax/" + name), name);
  }
}

TEST(Unpack, TakesAnArchiveWithoutMembersButNotNothing) {
  const Scratch scratch;
  EXPECT_EQ(refusal(scratch, tar_end()), "");
  EXPECT_EQ(refusal(scratch, gzip_of(std::string(10240, '\0'))), "");
  EXPECT_EQ(refusal(scratch, ""), "the archive is empty");
  EXPECT_EQ(refusal(scratch, gzip_of("")), "the archive is empty");
}

struct Row {
  const char* name;
  std::string bytes;
  const char* says;
};
class BadArchive : public testing::TestWithParam<Row> {};

TEST_P(BadArchive, IsRefusedWhole) {
  const Scratch scratch;
  scratch.directory("dest");
  scratch.file("dest/here", "before");
  for (const auto& bytes : {GetParam().bytes, gzip_of(GetParam().bytes)}) {
    EXPECT_THAT(refusal(scratch, bytes), HasSubstr(GetParam().says));
    EXPECT_EQ(scratch.tree(), "dest/ dest/here");
    EXPECT_EQ(scratch.content("dest/here"), "before");
  }
}

const RawMember kGood{.name = "good", .body = "good"};
INSTANTIATE_TEST_SUITE_P(
    , BadArchive,
    testing::ValuesIn(std::to_array<Row>({
        {"ClimbingName", tar_of({kGood, {.name = "../../x"}}), "'../../x' has '..'"},
        {"ClimbingFromInside", tar_of({kGood, {.name = "a/../../x"}}), "has '..'"},
        {"EmptyName", tar_of({kGood, {.name = ""}}), ""},
        {"FileNamedAsTheDestination", tar_of({kGood, {.name = "."}}), "destination's own name"},
        {"NulInAPaxName", raw(kGood) + pax_header(pax_record("path", {"a\0b", 3})) + tar_of({{.name = "x"}}), "NUL"},
        {"NulInAGnuName",
         raw(kGood) + raw({.name = "L", .type = 'L', .body = std::string("a\0b\0", 4)}) + tar_of({{.name = "x"}}),
         "NUL"},
        {"NameTooLong", raw(kGood) + pax_header(pax_record("path", std::string(256, 'n'))) + tar_of({{.name = "x"}}),
         "255"},
        {"PathTooLong", raw(kGood) + pax_header(pax_record("path", std::string(4097, '/'))) + tar_of({{.name = "x"}}),
         "4096"},
        {"AbsoluteLink", tar_of({kGood, {.name = "l", .type = '2', .target = "/etc"}}), "points outside"},
        {"ClimbingLink", tar_of({kGood, {.name = "d/l", .type = '2', .target = "../../x"}}), "points outside"},
        {"EmptyLink", tar_of({kGood, {.name = "l", .type = '2'}}), "points outside"},
        {"FileThroughALink",
         tar_of({kGood, {.name = "d/", .type = '5'}, {.name = "l", .type = '2', .target = "d"}, {.name = "l/x"}}),
         "goes through 'l', which is a link"},
        {"FileThroughAFile", tar_of({kGood, {.name = "good/x"}}), "goes through 'good', which is a file"},
        {"LinksThatClimbStepByStep",
         tar_of(
             {kGood, {.name = "d/up", .type = '2', .target = ".."}, {.name = "l", .type = '2', .target = "d/up/.."}}),
         "climbs up behind 'd/up'"},
        {"HardLinkToNothing", tar_of({kGood, {.name = "h", .type = '1', .target = "here"}}), "hard link 'h'"},
        {"HardLinkOutside", tar_of({kGood, {.name = "h", .type = '1', .target = "../here"}}), "'..'"},
        {"HardLinkToALink",
         tar_of({kGood, {.name = "l", .type = '2', .target = "good"}, {.name = "h", .type = '1', .target = "l"}}),
         "hard link 'h'"},
        {"HardLinkThroughALink",
         tar_of({kGood, {.name = "l", .type = '2', .target = "."}, {.name = "h", .type = '1', .target = "l/good"}}),
         "hard link 'h'"},
        {"CharacterDevice", tar_of({kGood, {.name = "x", .type = '3'}}), "type"},
        {"BlockDevice", tar_of({kGood, {.name = "x", .type = '4'}}), "type"},
        {"Fifo", tar_of({kGood, {.name = "x", .type = '6'}}), "type"},
        {"Contiguous", tar_of({kGood, {.name = "x", .type = '7'}}), "type"},
        {"VolumeName", tar_of({kGood, {.name = "x", .type = 'V'}, kGood}), ""},
        {"MultiVolume", tar_of({kGood, {.name = "x", .type = 'M'}}), "type"},
        {"UnknownType", tar_of({kGood, {.name = "x", .type = 'Z'}}), "type"},
        {"SizeBeyondTheStream", tar_of({kGood, {.name = "x", .body = "x", .size_field = "00000777777"}}), ""},
        {"NegativeSize", tar_of({kGood, {.name = "x", .size_field = std::string(12, '\xff')}}), ""},
        {"HugeSize",
         tar_of({kGood, {.name = "x", .size_field = "\x80" + std::string(3, '\0') + "\x7f" + std::string(7, '\xff')}}),
         ""},
        {"HugeSparse",
         raw(kGood) +
             pax_header(pax_record("GNU.sparse.major", "1") + pax_record("GNU.sparse.minor", "0") +
                        pax_record("GNU.sparse.name", "x") + pax_record("GNU.sparse.realsize", "9223372036854775807")) +
             tar_of({{.name = "x", .body = "0\n" + std::string(510, '\0')}}),
         "unpacks to more than"},
        {"BadChecksum", tar_of({kGood, {.name = "x", .checksum_error = 1}}), "not a valid archive"},
        {"NoEnd", raw(kGood), "cut short"},
        {"SomethingBehindTheEnd", tar_of({kGood}) + tar_of({kGood}), "after its end"},
        {"NotATar", std::string(2000, 'x'), "not a valid archive"},
        {"FileOverAFullDirectory", tar_of({{.name = "d/x"}, {.name = "d"}}), "has something in it"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Unpack, RefusesAnArchiveCutAnywhere) {
  const Scratch scratch;
  const auto tar = tar_of({{.name = "a", .body = std::string(700, 'a')}, {.name = "d/b", .body = "b"}});
  const auto gzip = gzip_of(tar);
  for (std::size_t size = 0; size < gzip.size(); ++size) {
    EXPECT_NE(refusal(scratch, std::string_view(gzip).substr(0, size)), "") << size;
  }
  for (std::size_t size = 0; size + 1024 < tar.size(); size += 100) {
    EXPECT_NE(refusal(scratch, std::string_view(tar).substr(0, size)), "") << size;
  }
  EXPECT_EQ(scratch.tree(), "");
}

TEST(Unpack, NoticesEveryFlippedBitOfGzip) {
  const Scratch scratch;
  const auto gzip = gzip_of(tar_of({{.name = "a", .body = "some text that is there to be changed"}}));
  for (std::size_t i = 10; i < gzip.size(); ++i) {  // the first ten bytes hold a time and the like
    if (i == gzip.size() - 9) continue;             // the last bits before the checksum are padding
    auto broken = gzip;
    broken[i] = static_cast<char>(broken[i] ^ 0x10);
    EXPECT_NE(refusal(scratch, broken), "") << i;
  }
  EXPECT_EQ(scratch.tree(), "");
}

TEST(Unpack, SurvivesRandomBytes) {
  const Scratch scratch;
  std::mt19937 random(7);
  const auto good = tar_of({{.name = "a", .body = "text"},
                            {.name = "l", .type = '2', .target = "a"},
                            {.name = "d/h", .type = '1', .target = "a"}});
  for (int round = 0; round < 500; ++round) {
    auto bytes = good;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    static_cast<void>(unpack_bytes(scratch, bytes).has_value());
    std::string noise(random() % 3000, '\0');
    for (auto& c : noise) c = static_cast<char>(random());
    EXPECT_NE(refusal(scratch, noise), "");
  }
  EXPECT_THAT(scratch.tree("dest"), testing::Not(HasSubstr(".cove-upload")));
}

TEST(Unpack, TakesGzipMembersOneAfterTheOtherAndZerosBehindThem) {
  const Scratch scratch;
  const auto tar = tar_of({kGood});
  const auto split = gzip_of(tar.substr(0, 600)) + gzip_of(tar.substr(600));
  EXPECT_EQ(refusal(scratch, split), "");
  EXPECT_EQ(refusal(scratch, split + std::string(5000, '\0')), "");
  EXPECT_THAT(refusal(scratch, split + "garbage"), HasSubstr("garbage"));
}

TEST(Unpack, StripsWhatAMemberMustNotHave) {
  const Scratch scratch;
  const auto now = std::time(nullptr);
  const auto bytes = pax_header(pax_record("SCHILY.xattr.security.capability", "x") + pax_record("uid", "0")) +
                     tar_of({{.name = "suid", .mode = 07755},
                             {.name = "d/", .type = '5', .mode = 01750},
                             {.name = "closed/", .type = '5', .mode = 0},
                             {.name = "closed/inside", .body = "x", .mode = 0},
                             {.name = "epoch", .mtime_field = octal_field(0, 11)},
                             {.name = "future", .mtime_field = octal_field(7'000'000'000, 11)},
                             {.name = "past", .mtime_field = octal_field(1'234'567'890, 11)}});
  ASSERT_EQ(refusal(scratch, bytes), "");
  EXPECT_EQ(status(scratch, "dest/suid").st_mode & 07777, 0755);
  EXPECT_EQ(status(scratch, "dest/d").st_mode & 07777, 0750);
  EXPECT_EQ(status(scratch, "dest/closed").st_mode & 07777, 0);
  EXPECT_NEAR(static_cast<double>(status(scratch, "dest/epoch").st_mtime), static_cast<double>(now), 60);
  EXPECT_NEAR(static_cast<double>(status(scratch, "dest/future").st_mtime), static_cast<double>(now), 60);
  EXPECT_EQ(status(scratch, "dest/past").st_mtime, 1'234'567'890);
}

TEST(Unpack, StopsAtItsLimits) {
  const Scratch scratch;
  const auto three = tar_of({{.name = "a", .body = "aaaa"}, {.name = "a", .body = "aaaa"}, {.name = "a", .body = "a"}});
  EXPECT_EQ(refusal(scratch, three, {.max_bytes = 9, .max_members = 3}), "");
  EXPECT_THAT(refusal(scratch, three, {.max_bytes = 8}), HasSubstr("more than 8 bytes"));
  EXPECT_THAT(refusal(scratch, three, {.max_members = 2}), HasSubstr("more than 2 members"));
  EXPECT_THAT(refusal(scratch, tar_of({{.name = "1/2/3/4"}}), {.max_members = 3}), HasSubstr("more than 3 members"));
  EXPECT_THAT(refusal(scratch, tar_of({{.name = "1/2/3/4"}}), {.max_depth = 3}), HasSubstr("3 levels"));
  const auto bomb = gzip_of(tar_of({{.name = "zeros", .body = std::string(3 << 20, '\0')}}));
  EXPECT_THAT(refusal(scratch, bomb, {.ratio = {.max_ratio = 100, .floor_bytes = 1 << 20}}), HasSubstr("100 times"));
  EXPECT_EQ(refusal(scratch, bomb, {.ratio = {.max_ratio = 100, .floor_bytes = 8 << 20}}), "");
  EXPECT_EQ(unpack_bytes(scratch, three, {.max_bytes = 8}).error().code, Errc::over_limit);
}

TEST(Unpack, LetsTheLastOfOneNameWinAndNeverFollows) {
  const Scratch scratch;
  scratch.file("outside", "before");
  const auto bytes = tar_of({{.name = "x", .body = "file"},
                             {.name = "x/", .type = '5'},
                             {.name = "x", .type = '2', .target = "y"},
                             {.name = "x", .body = "last"},
                             {.name = "y", .body = "first"},
                             {.name = "h", .type = '1', .target = "y"},
                             {.name = "y", .body = "second"}});
  ASSERT_EQ(refusal(scratch, bytes), "");
  EXPECT_EQ(scratch.tree("dest"), "h x y");
  EXPECT_EQ(scratch.content("dest/x"), "last");
  EXPECT_EQ(scratch.content("dest/h"), "first");
  EXPECT_EQ(scratch.content("dest/y"), "second");
}

TEST(Unpack, KeepsHolesAndCountsThem) {
  const Scratch scratch;
  const auto header = pax_header(pax_record("GNU.sparse.major", "1") + pax_record("GNU.sparse.minor", "0") +
                                 pax_record("GNU.sparse.name", "holes") + pax_record("GNU.sparse.realsize", "1000000"));
  std::string map = "1\n500000\n3\n";
  map.resize(512, '\0');
  const auto unpacked = unpack_bytes(scratch, header + tar_of({{.name = "x", .body = map + "abc"}}));
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  EXPECT_EQ(unpacked->bytes, 1'000'000);
  EXPECT_EQ(status(scratch, "dest/holes").st_size, 1'000'000);
  EXPECT_EQ(scratch.content("dest/holes").substr(499'999, 5), std::string("\0abc\0", 5));
}

TEST(Unpack, MergesWithWhatIsThere) {
  const Scratch scratch;
  for (const auto* name : {"dest", "dest/d", "dest/d/e", "dest/empty"}) scratch.directory(name);
  scratch.file("dest/d/kept", "kept");
  scratch.file("dest/d/old", "old");
  scratch.file("outside", "before");
  scratch.link("dest/link", "../outside");
  ASSERT_EQ(::chmod(scratch.at("dest/d").c_str(), 0711), 0);
  const auto bytes = tar_of({{.name = "d/", .type = '5', .mode = 0700},
                             {.name = "d/old", .body = "new"},
                             {.name = "d/e/f", .body = "f"},
                             {.name = "empty", .body = "a file now"},
                             {.name = "link", .body = "no link any more"}});
  ASSERT_EQ(refusal(scratch, bytes), "");
  EXPECT_EQ(scratch.tree("dest"), "d/ d/e/ d/e/f d/kept d/old empty link");
  EXPECT_EQ(scratch.content("dest/d/old"), "new");
  EXPECT_EQ(scratch.content("dest/link"), "no link any more");
  EXPECT_EQ(scratch.content("outside"), "before");
  EXPECT_EQ(status(scratch, "dest/d").st_mode & 07777, 0711);
}

TEST(Unpack, MovesNothingWhenSomethingIsInTheWay) {
  const Scratch scratch;
  for (const auto* name : {"dest", "dest/full", "outside"}) scratch.directory(name);
  scratch.file("dest/full/x", "x");
  scratch.file("dest/file", "file");
  scratch.link("dest/link", "../outside");
  const auto before = scratch.tree();
  EXPECT_THAT(refusal(scratch, tar_of({{.name = "a"}, {.name = "full"}})), HasSubstr("'full' would replace"));
  EXPECT_THAT(refusal(scratch, tar_of({{.name = "a"}, {.name = "file/x"}})), HasSubstr("'file' is a directory in"));
  EXPECT_THAT(refusal(scratch, tar_of({{.name = "a"}, {.name = "link/x"}})), HasSubstr("'link' is a link"));
  EXPECT_THAT(refusal(scratch, tar_of({{.name = "a"}, {.name = "link/", .type = '5'}})), HasSubstr("'link' is a link"));
  EXPECT_EQ(scratch.tree(), before);
}

TEST(Unpack, RemovesTheDestinationItMadeForNothing) {
  const Scratch scratch;
  EXPECT_FALSE(unpack_bytes(scratch, "nothing good", {}, "new/deep/dest"));
  EXPECT_EQ(scratch.tree(), "");
  EXPECT_TRUE(unpack_bytes(scratch, tar_end(), {}, "new/deep/dest"));
  EXPECT_EQ(scratch.tree(), "new/ new/deep/ new/deep/dest/");
}

TEST(Unpack, RemovesWhatAnUploadThatWasKilledLeft) {
  const Scratch scratch;
  for (const auto* name : {"dest", "dest/.cove-upload-0123456789abcdef", "dest/.cove-upload-fresh"})
    scratch.directory(name);
  scratch.file("dest/.cove-upload-0123456789abcdef/part", "part");
  const timespec long_ago[] = {{.tv_sec = 1'000'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000'000, .tv_nsec = 0}};
  const auto left = scratch.at("dest/.cove-upload-0123456789abcdef");
  ASSERT_EQ(::utimensat(AT_FDCWD, left.c_str(), long_ago, 0), 0);
  EXPECT_EQ(refusal(scratch, tar_end()), "");
  EXPECT_EQ(scratch.tree("dest"), ".cove-upload-fresh/");
}

// AR-18: whatever is swapped while an archive is moved into place, nothing lands behind a link.
TEST(Unpack, NeverWritesThroughALinkThatIsSwappedIn) {
  const Scratch scratch;
  for (const auto* name : {"dest", "dest/d", "outside"}) scratch.directory(name);
  scratch.link("dest/swap", "../outside");
  std::atomic<bool> stop = false;
  std::jthread attacker([&] {
    const auto d = scratch.at("dest/d");
    const auto swap = scratch.at("dest/swap");
    while (!stop) ::renameat2(AT_FDCWD, d.c_str(), AT_FDCWD, swap.c_str(), RENAME_EXCHANGE);
  });
  const auto bytes = tar_of({{.name = "d/x", .body = "x"}, {.name = "d/y", .body = "y"}});
  for (int round = 0; round < 300; ++round) static_cast<void>(unpack_bytes(scratch, bytes).has_value());
  stop = true;
  attacker.join();
  EXPECT_EQ(scratch.tree("outside"), "");
  EXPECT_THAT(scratch.tree("dest"), testing::Not(HasSubstr(".cove-upload")));
}

}  // namespace
}  // namespace cove::files
