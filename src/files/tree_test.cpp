#include "files/tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "files/content.hpp"
#include "files/json.hpp"
#include "files/scratch.hpp"

namespace cove::files {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string read_out(const std::string& path, ReadRange range = {}) {
  const UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  const auto done = read_content(path, range, out.get());
  if (!done) return "(" + std::string(error_code(done.error())) + ") " + done.error().message;
  EXPECT_EQ(::lseek(out.get(), 0, SEEK_SET), 0);
  return read_all(out.get()).value();
}

TEST(Stat, TellsWhatTheApiShows) {
  const Scratch scratch;
  scratch.file("file", "12345");
  scratch.link("link", "file");
  const timespec when{.tv_sec = 1'700'000'000, .tv_nsec = 123'456'789};
  const timespec both[] = {when, when};
  ASSERT_EQ(::utimensat(AT_FDCWD, scratch.at("file").c_str(), both, 0), 0);
  const auto file = stat_path(scratch.at("file"));
  ASSERT_TRUE(file);
  EXPECT_EQ(to_json(*file),
            R"({"path":")" + scratch.at("file") +
                R"(","name":"file","type":"file","size":5,"mode":"0644","mtime":"2023-11-14T22:13:20.123Z"})");
  EXPECT_THAT(to_json(stat_path(scratch.at("link")).value()), HasSubstr(R"("type":"symlink")"));
  EXPECT_THAT(to_json(stat_path(scratch.at("link")).value()), HasSubstr(R"("target":"file"})"));
  EXPECT_EQ(stat_path("/")->type, "directory");
  EXPECT_EQ(stat_path("/dev/null")->type, "other");
  EXPECT_EQ(stat_path(scratch.at("missing")).error().code, Errc::not_found);
  EXPECT_EQ(error_code(stat_path(scratch.at("file/x")).error()), "invalid");
}

TEST(List, IsSortedByPathAndSaysWhenItIsCut) {
  const Scratch scratch;
  for (const auto* name : {"a", "a/deep"}) scratch.directory(name);
  scratch.file("a/deep/x", "");
  scratch.file("a-b", "");
  scratch.link("loop", ".");
  EXPECT_EQ(list_tree(scratch.path(), 1, 10)->entries.size(), 3);
  const auto all = list_tree(scratch.path(), 9, 10);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->left_out, 0U);
  EXPECT_EQ(scratch.tree(), "a/ a-b a/deep/ a/deep/x loop->.");
  const auto cut = list_tree(scratch.path(), 9, 2);
  EXPECT_EQ(cut->left_out, all->entries.size() - 2);
  EXPECT_THAT(to_json(*cut), testing::EndsWith(fmt::format(R"(],"truncated":true,"left_out":{}}})", cut->left_out)));
  EXPECT_EQ(list_tree(scratch.at("a-b"), 1, 10).error().code, Errc::invalid);
  EXPECT_EQ(list_tree(scratch.at("missing"), 1, 10).error().code, Errc::not_found);
  EXPECT_EQ(to_json(Listing{}), R"({"entries":[],"truncated":false})");
}

TEST(Read, SendsAHeaderAndTheRange) {
  const Scratch scratch;
  scratch.file("file", "0123456789");
  EXPECT_THAT(read_out(scratch.at("file")), StartsWith(R"({"size":10,"mtime_ns":)"));
  EXPECT_THAT(read_out(scratch.at("file")), testing::EndsWith("}\n0123456789"));
  EXPECT_THAT(read_out(scratch.at("file"), {.offset = 2, .length = 3}), testing::EndsWith("}\n234"));
  EXPECT_THAT(read_out(scratch.at("file"), {.offset = 8, .length = 30}), testing::EndsWith("}\n89"));
  EXPECT_THAT(read_out(scratch.at("file"), {.offset = 10}), testing::EndsWith("}\n"));
}

TEST(Read, RefusesWhatIsNoRegularFile) {
  const Scratch scratch;
  ASSERT_EQ(::mkfifo(scratch.at("fifo").c_str(), 0666), 0);
  EXPECT_THAT(read_out(scratch.path()), testing::EndsWith("is a directory"));
  EXPECT_THAT(read_out(scratch.at("fifo")), StartsWith("(invalid)"));
  EXPECT_THAT(read_out("/proc/self/status"), StartsWith("(invalid)"));
  EXPECT_THAT(read_out("/proc/self/exe"), StartsWith("(invalid)"));
  EXPECT_THAT(read_out("/dev/zero"), StartsWith("(invalid)"));
  EXPECT_THAT(read_out(scratch.at("missing")), StartsWith("(not_found)"));
}

TEST(Write, ReplacesWholeAndMakesParents) {
  const Scratch scratch;
  scratch.file("outside", "before");
  auto content = stream_of("one");
  const auto entry = write_content(scratch.at("a/b/file"), 0640, content.get());
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_EQ(entry->size, 3);
  EXPECT_EQ(entry->mode, 0640);
  scratch.link("a/link", "../outside");
  content = stream_of("two");
  ASSERT_TRUE(write_content(scratch.at("a/link"), 0600, content.get()));
  EXPECT_EQ(scratch.tree(), "a/ a/b/ a/b/file a/link outside");
  EXPECT_EQ(scratch.content("outside"), "before");
  content = stream_of("three");
  EXPECT_EQ(write_content(scratch.at("a"), 0600, content.get()).error().code, Errc::invalid);
  EXPECT_EQ(scratch.tree(), "a/ a/b/ a/b/file a/link outside");
}

TEST(Append, AddsAndNeverFollowsALink) {
  const Scratch scratch;
  auto content = stream_of("one ");
  ASSERT_TRUE(append_content(scratch.at("file"), 0644, content.get()));
  content = stream_of("two");
  EXPECT_EQ(append_content(scratch.at("file"), 0644, content.get())->size, 7);
  EXPECT_EQ(scratch.content("file"), "one two");
  scratch.link("link", "file");
  content = stream_of("three");
  EXPECT_EQ(append_content(scratch.at("link"), 0644, content.get()).error().code, Errc::invalid);
  EXPECT_EQ(scratch.content("file"), "one two");
}

TEST(Rename, ReplacesOnlyWhenAsked) {
  const Scratch scratch;
  scratch.file("a", "a");
  scratch.file("b", "b");
  EXPECT_EQ(rename_path(scratch.at("a"), scratch.at("b"), Overwrite::no).error().code, Errc::exists);
  EXPECT_EQ(rename_path(scratch.at("x"), scratch.at("b"), Overwrite::yes).error().code, Errc::not_found);
  EXPECT_EQ(rename_path(scratch.at("a"), scratch.at("b"), Overwrite::yes)->path, scratch.at("b"));
  EXPECT_EQ(scratch.tree(), "b");
  EXPECT_EQ(scratch.content("b"), "a");
}

TEST(MakeDirectory, IsFineWhenItIsThere) {
  const Scratch scratch;
  EXPECT_EQ(make_directory(scratch.at("a/b"))->type, "directory");
  EXPECT_TRUE(make_directory(scratch.at("a/b")));
  scratch.file("file", "");
  EXPECT_EQ(make_directory(scratch.at("file")).error().code, Errc::exists);
}

TEST(MakeLink, MakesParentsAndReplacesNothing) {
  const Scratch scratch;
  const auto made = make_link(scratch.at("a/link"), "../nowhere");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->type, "symlink");
  EXPECT_THAT(to_json(*made), HasSubstr(R"("target":"../nowhere"})"));
  EXPECT_EQ(make_link(scratch.at("a/link"), "elsewhere").error().code, Errc::exists);
}

TEST(Remove, TakesWhatItIsToldAndNotMore) {
  const Scratch scratch;
  for (const auto* name : {"d", "d/e", "outside"}) scratch.directory(name);
  scratch.file("d/e/f", "");
  scratch.file("outside/kept", "");
  scratch.link("d/e/link", "../../outside");
  EXPECT_EQ(remove_path(scratch.at("d"), Recursive::no).error().code, Errc::invalid);
  ASSERT_EQ(::chmod(scratch.at("d/e").c_str(), 0), 0);
  EXPECT_TRUE(remove_path(scratch.at("d"), Recursive::yes));
  EXPECT_EQ(scratch.tree(), "outside/ outside/kept");
  EXPECT_EQ(remove_path(scratch.at("d"), Recursive::yes).error().code, Errc::not_found);
  EXPECT_EQ(remove_path("/", Recursive::yes).error().code, Errc::invalid);
  EXPECT_EQ(remove_path(scratch.at("outside/.."), Recursive::yes).error().code, Errc::invalid);
}

}  // namespace
}  // namespace cove::files
