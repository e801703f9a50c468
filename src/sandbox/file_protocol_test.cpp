#include "sandbox/file_protocol.hpp"

#include <gmock/gmock.h>

#include <cerrno>

namespace cove::sandbox::file_protocol {
namespace {

using testing::ElementsAre;

TEST(FileProtocol, WritesACommandLine) {
  auto line = command(wire::FileVerb::upload, "/workspace/a b");
  add(line, wire::kMaxBytesOption, 10);
  add(line, wire::kRecursiveWord);
  EXPECT_THAT(line, ElementsAre("upload", "/workspace/a b", "--max-bytes", "10", "recursive"));
  EXPECT_EQ(path_head("7", "a\nb"), "7 3\na\nb");
}

TEST(FileProtocol, NamesEveryVerbOnce) {
  for (const auto& [verb, name] : wire::kFileVerbs) {
    EXPECT_EQ(wire::name_of(verb), name);
    EXPECT_EQ(wire::file_verb(name), verb);
  }
  EXPECT_EQ(wire::file_verb("format"), std::nullopt);
}

TEST(FileProtocol, ReadsAListing) {
  const auto listing =
      decode_listing(R"({"entries":[{"path":"/workspace/a","name":"a","type":"symlink","size":3,"mode":"0777",)"
                     R"("mtime":"2026-03-04T10:15:00.123Z","target":"b"}],"truncated":true})");
  ASSERT_TRUE(listing);
  EXPECT_TRUE(listing->truncated);
  ASSERT_EQ(listing->entries.size(), 1U);
  const auto& entry = listing->entries.front();
  EXPECT_EQ(entry.path, "/workspace/a");
  EXPECT_EQ(entry.type, "symlink");
  EXPECT_EQ(entry.size, 3U);
  EXPECT_EQ(entry.mode, "0777");
  EXPECT_EQ(entry.modified, "2026-03-04T10:15:00.123Z");
  EXPECT_EQ(entry.target, "b");
}

TEST(FileProtocol, RefusesAListingThatIsNone) {
  for (const auto* answer : {"", "[]", "{}", R"({"entries":[],"truncated":1})", R"({"entries":[1],"truncated":false})",
                             R"({"entries":[{"path":"a","type":"file","size":1}],"truncated":false})",
                             R"({"entries":[{"path":"/a","type":"file","size":-1}],"truncated":false})"})
    EXPECT_FALSE(decode_listing(answer)) << answer;
}

TEST(FileProtocol, BoundsTheChanges) {
  constexpr auto kTwo = R"({"files":[{"path":"a","size":1,"created":true,"mark":"m"},)"
                        R"({"path":"b","size":1,"created":false,"mark":"n"}],"more":false})";
  EXPECT_EQ(decode_changes(kTwo, 2)->files.size(), 2U);
  EXPECT_FALSE(decode_changes(kTwo, 1));
}

TEST(FileProtocol, TellsAPathThatLeadsOut) {
  const auto error = decode_error(R"({"code":"outside","error":"a leads out"})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::denied);
  EXPECT_EQ(error->sys_errno, EXDEV);
  EXPECT_FALSE(decode_error("Segmentation fault"));
}

TEST(WorkspacePath, IsMadeAndTakenApart) {
  EXPECT_EQ(workspace_path(""), "/workspace");
  EXPECT_EQ(workspace_path("a/b"), "/workspace/a/b");
  EXPECT_EQ(*workspace_relative("/workspace/a/b"), "a/b");
  EXPECT_EQ(*workspace_relative("/workspace"), "");
  for (const auto* outside : {"", "/", "/work", "/workspaces/a", "a"}) EXPECT_FALSE(workspace_relative(outside));
}

}  // namespace
}  // namespace cove::sandbox::file_protocol
