#include "files/pack.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <map>
#include <thread>

#include "files/scratch.hpp"
#include "files/unpack.hpp"

namespace cove::files {
namespace {

UniqueFd sink() {
  return UniqueFd(::memfd_create("archive", MFD_CLOEXEC));
}

std::string bytes_in(const UniqueFd& fd) {
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_SET), 0);
  return read_all(fd.get()).value();
}

struct Seen {
  std::string names;  // in order, separated by blanks; links with their targets
  std::map<std::string, std::string> content;
  bool whole = false;
};

Seen read_archive(const std::string& bytes) {
  Seen seen;
  auto* reader = archive_read_new();
  archive_read_support_format_tar(reader);
  archive_read_support_filter_gzip(reader);
  archive_read_open_memory(reader, bytes.data(), bytes.size());
  struct archive_entry* entry = nullptr;
  int status = ARCHIVE_OK;
  while ((status = archive_read_next_header(reader, &entry)) == ARCHIVE_OK || status == ARCHIVE_WARN) {
    const std::string name = archive_entry_pathname(entry);
    if (!seen.names.empty()) seen.names += ' ';
    seen.names += name;
    if (archive_entry_symlink(entry) != nullptr) seen.names += std::string("->") + archive_entry_symlink(entry);
    EXPECT_EQ(archive_entry_uid(entry), 0);
    EXPECT_EQ(archive_entry_gid(entry), 0);
    EXPECT_STREQ(archive_entry_uname(entry) != nullptr ? archive_entry_uname(entry) : "", "");
    EXPECT_EQ(archive_entry_hardlink(entry), nullptr);
    EXPECT_EQ(archive_entry_mode(entry) & 07000, 0U);
    std::string content(static_cast<std::size_t>(archive_entry_size(entry)), '\0');
    EXPECT_EQ(archive_read_data(reader, content.data(), content.size()), static_cast<la_ssize_t>(content.size()));
    seen.content[name] = content;
  }
  seen.whole = status == ARCHIVE_EOF;
  archive_read_free(reader);
  return seen;
}

Seen packed(const std::string& src) {
  const auto out = sink();
  const auto done = pack(src, out.get(), {});
  EXPECT_TRUE(done) << done.error().message;
  const auto bytes = bytes_in(out);
  EXPECT_TRUE(bytes.starts_with("\x1f\x8b"));
  auto seen = read_archive(bytes);
  EXPECT_TRUE(seen.whole);
  return seen;
}

TEST(Pack, HoldsEverythingInOrderUnderRelativeNames) {
  const Scratch scratch;
  for (const auto* name : {"b", "b/empty", "a"}) scratch.directory(name);
  scratch.file("b/file", "content");
  scratch.file("z", "zzz");
  ASSERT_EQ(::chmod(scratch.at("z").c_str(), 06755), 0);
  const auto seen = packed(scratch.path());
  EXPECT_EQ(seen.names, "a/ b/ b/empty/ b/file z");
  EXPECT_EQ(seen.content.at("b/file"), "content");
}

TEST(Pack, LeavesOutWhatWouldBreakOrMisleadTheOneWhoUnpacks) {
  const Scratch scratch;
  scratch.directory("d");
  scratch.file("file", "x");
  scratch.link("d/inner", "../file");
  scratch.link("d/out", "../../file");
  scratch.link("absolute", "/etc/passwd");
  scratch.link("dangling", "nowhere");
  ASSERT_EQ(::link(scratch.at("file").c_str(), scratch.at("hard").c_str()), 0);
  ASSERT_EQ(::mkfifo(scratch.at("fifo").c_str(), 0666), 0);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  scratch.at("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto seen = packed(scratch.path());
  EXPECT_EQ(seen.names, "d/ d/inner->../file dangling->nowhere file hard");
  EXPECT_EQ(seen.content.at("hard"), "x");
}

TEST(Pack, OfAnEmptyDirectoryIsAValidArchive) {
  const Scratch scratch;
  EXPECT_EQ(packed(scratch.path()).names, "");
}

TEST(Pack, OfAFileHoldsItUnderItsBaseName) {
  const Scratch scratch;
  scratch.file("one", "1");
  EXPECT_EQ(packed(scratch.at("one")).content.at("one"), "1");
}

TEST(Pack, SaysNothingBeforeItHasFoundItsSource) {
  const Scratch scratch;
  scratch.file("file", "12345");
  const auto out = sink();
  const auto missing = pack(scratch.at("missing"), out.get(), {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::not_found);
  EXPECT_EQ(missing.error().message, "path not found: " + scratch.at("missing"));
  EXPECT_EQ(pack("/proc", out.get(), {}).error().code, Errc::invalid);
  EXPECT_EQ(pack("/dev/null", out.get(), {}).error().code, Errc::invalid);
  EXPECT_EQ(pack(scratch.path(), out.get(), {.max_bytes = 4}).error().code, Errc::over_limit);
  EXPECT_EQ(pack(scratch.at("file"), out.get(), {.max_bytes = 4}).error().code, Errc::over_limit);
  EXPECT_EQ(bytes_in(out), "");
  EXPECT_TRUE(pack(scratch.path(), out.get(), {.max_bytes = 5}));
}

TEST(Pack, KeepsLongAndForeignNames) {
  const Scratch scratch;
  const std::string name(200, 'n');
  scratch.directory(name);
  for (const std::string file : {"é", "\xff", "new\nline", "n2"}) scratch.file(name + "/" + file, file);
  const auto seen = packed(scratch.path());
  for (const std::string file : {"é", "\xff", "new\nline", "n2"}) EXPECT_EQ(seen.content.at(name + "/" + file), file);
}

TEST(Pack, NeedsFewDescriptorsHoweverDeepTheTree) {
  const Scratch scratch;
  constexpr int kDepth = 5000;
  UniqueFd at(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kDepth; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "d", 0755), 0);
    at.reset(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at);
  }
  const UniqueFd last(::openat(at.get(), "last", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_TRUE(last);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto out = sink();
  const auto done = pack(scratch.path(), out.get(), {});
  EXPECT_TRUE(done) << done.error().message;
  const auto seen = read_archive(bytes_in(out));
  EXPECT_TRUE(seen.whole);
  EXPECT_EQ(seen.content.size(), kDepth + 1);
  EXPECT_TRUE(seen.names.ends_with("/last"));
  EXPECT_TRUE(remove_tree(AT_FDCWD, scratch.at("d")));
  EXPECT_TRUE(scratch.tree().empty());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

// FS-04, AR-18: what is swapped, cut, grown and removed under way costs content, never validity, and no link is
// followed.
TEST(Pack, StaysValidAndInsideWhileTheTreeChanges) {
  const Scratch scratch;
  for (const auto* name : {"src", "src/d", "outside"}) scratch.directory(name);
  scratch.file("outside/secret", "secret");
  scratch.file("src/d/secret", "public");
  scratch.link("src/e", "../outside");
  std::atomic<bool> stop = false;
  std::jthread attacker([&] {
    const auto d = scratch.at("src/d");
    const auto e = scratch.at("src/e");
    const auto size = scratch.at("src/size");
    for (unsigned round = 0; !stop; ++round) {
      ::renameat2(AT_FDCWD, d.c_str(), AT_FDCWD, e.c_str(), RENAME_EXCHANGE);
      const UniqueFd fd(::open(size.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
      if (::ftruncate(fd.get(), round % 2 == 0 ? 400'000 : 10) != 0) return;
      if (round % 7 == 0) ::unlink(size.c_str());
    }
  });
  for (int round = 0; round < 300; ++round) {
    const auto seen = packed(scratch.at("src"));
    for (const auto& [name, content] : seen.content) EXPECT_NE(content, "secret") << name;
  }
  stop = true;
}

TEST(Pack, UnpacksToTheSameTree) {
  const Scratch scratch;
  for (const auto* name : {"src", "src/a", "src/a/b"}) scratch.directory(name);
  scratch.file("src/a/b/big", std::string(300'000, 'b'));
  scratch.file("src/é", "é");
  scratch.link("src/a/l", "b/big");
  const auto out = sink();
  ASSERT_TRUE(pack(scratch.at("src"), out.get(), {}));
  ASSERT_EQ(::lseek(out.get(), 0, SEEK_SET), 0);
  ASSERT_TRUE(unpack(out.get(), scratch.at("copy"), {}));
  EXPECT_EQ(scratch.tree("copy"), scratch.tree("src"));
  EXPECT_EQ(scratch.content("copy/a/b/big"), scratch.content("src/a/b/big"));
}

}  // namespace
}  // namespace cove::files
