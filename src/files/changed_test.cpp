#include "files/changed.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <time.h>

#include "files/scratch.hpp"

namespace cove::files {
namespace {

std::int64_t coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// Files' times go in ticks.
std::int64_t next_tick() {
  const auto before = coarse_now();
  while (coarse_now() == before) {
  }
  return coarse_now();
}

std::string mark(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(::stat(path.c_str(), &found), 0);
  return mark_of(found);
}

std::string shown(const Result<Changes>& changes) {
  if (!changes) return changes.error().message;
  std::string out;
  for (const auto& file : changes->files) out += fmt::format("{}{}:{} ", file.created ? "+" : "", file.path, file.size);
  return out + (changes->more ? "more" : "");
}

TEST(Changes, AreWhatWasWrittenSince) {
  const Scratch scratch;
  scratch.directory("sub");
  scratch.file("old", "1");
  scratch.file("sub/kept", "1");
  const auto since = next_tick();
  EXPECT_EQ(shown(changes_below(scratch.path(), {.since_ns = since})), "");
  scratch.file("old", "12");
  scratch.file("sub/new", "123");
  scratch.link("link", "old");
  EXPECT_EQ(shown(changes_below(scratch.path(), {.since_ns = since})), "old:2 +sub/new:3 ");
  EXPECT_EQ(to_json(*changes_below(scratch.path(), {.since_ns = since, .most = 1})),
            fmt::format(R"({{"files":[{{"path":"old","size":2,"created":false,"mark":"{}"}}],"more":true}})",
                        mark(scratch.at("old"))));
}

TEST(Changes, GoByNoTimeThatAFileSays) {
  const Scratch scratch;
  const auto since = next_tick();
  scratch.file("file", "1");
  const timespec long_ago[2] = {{}, {}};
  ASSERT_EQ(::utimensat(AT_FDCWD, scratch.at("file").c_str(), long_ago, 0), 0);
  EXPECT_EQ(shown(changes_below(scratch.path(), {.since_ns = since})), "+file:1 ");
}

TEST(Changes, PassOverWhatIsHiddenOrKeptByTools) {
  const Scratch scratch;
  const auto since = next_tick();
  for (const auto* name : {".hidden", "__pycache__", "node_modules"}) scratch.directory(name);
  for (const auto* name : {".file", ".hidden/file", "__pycache__/x.pyc", "node_modules/x.js"}) scratch.file(name, "1");
  EXPECT_EQ(shown(changes_below(scratch.path(), {.since_ns = since})), "");
}

TEST(Changes, LeaveOutWhatIsKnownAndAsItWas) {
  const Scratch scratch;
  const auto since = next_tick();
  scratch.file("given", "1");
  const ChangesWanted wanted{.since_ns = since, .known = {{"given", mark(scratch.at("given"))}}};
  EXPECT_EQ(shown(changes_below(scratch.path(), wanted)), "");
  EXPECT_EQ(shown(changes_below(scratch.path(), {.since_ns = since})), "+given:1 ");
  scratch.file("given", "12");
  EXPECT_EQ(shown(changes_below(scratch.path(), wanted)), "given:2 ");
}

TEST(Changes, NeedADirectory) {
  EXPECT_FALSE(changes_below("/nowhere", {}));
}

}  // namespace
}  // namespace cove::files
