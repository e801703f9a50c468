#include "sandbox/kernel_message.hpp"

#include <gmock/gmock.h>

namespace cove::sandbox {
namespace {

namespace json = boost::json;

// What comes of one message, however many records it takes.
Result<std::optional<KernelMessage>> receive(std::string_view message) {
  KernelInbox inbox;
  Result<std::optional<KernelMessage>> last = std::optional<KernelMessage>();
  for (const auto& record : guest::records_of(message)) {
    last = inbox.add(record);
    if (!last || *last) break;
  }
  return last;
}

TEST(KernelInbox, GivesTheMessageWithItsLastRecord) {
  const auto text =
      fmt::format(R"({{"type":"stream","parent":7,"content":{{"text":"{}"}}}})", std::string(300'000, 'x'));
  const auto records = guest::records_of(text);
  ASSERT_GT(records.size(), 1U);
  KernelInbox inbox;
  for (std::size_t i = 0; i + 1 < records.size(); ++i) EXPECT_FALSE(inbox.add(records[i]).value());
  const auto message = inbox.add(records.back()).value();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->type, "stream");
  EXPECT_EQ(message->parent, 7U);
  EXPECT_EQ(text_of(message->content, "text").size(), 300'000U);
  EXPECT_GE(message->bytes, text.size());
}

TEST(KernelInbox, WantsNoPartsOfReadyAndFailed) {
  EXPECT_EQ(receive(R"({"type":"ready"})").value()->type, "ready");
  EXPECT_EQ(receive(R"({"type":"failed","message":"no module"})").value()->text, "no module");
}

TEST(KernelInbox, RefusesWhatBreaksTheProtocol) {
  for (const auto* bad : {"[]", "{", R"({"type":"stream","parent":1})", R"({"parent":1,"content":{}})",
                          R"({"type":"stream","parent":1,"content":[]})"}) {
    const auto message = receive(bad);
    ASSERT_FALSE(message) << bad;
    EXPECT_EQ(message.error().code, Errc::invalid) << bad;
  }
  EXPECT_EQ(receive(std::string(100, '[')).error().code, Errc::invalid);
}

TEST(KernelInbox, AMessageOfAnUnknownParentBelongsToNoExecution) {
  EXPECT_FALSE(receive(R"({"type":"stream","parent":"7","content":{}})").value()->parent);
}

TEST(KernelInbox, DropsWhatIsShownAndTooLargeAndRefusesOtherMessagesOfThatSize) {
  std::string many = "0";
  for (int i = 0; i < 500'001; ++i) many += ",0";
  const auto shown = receive(fmt::format(R"({{"type":"display_data","parent":1,"content":{{"data":[{}]}}}})", many));
  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().code, Errc::over_limit);
  const auto reply = receive(fmt::format(R"({{"type":"execute_reply","parent":1,"content":{{"data":[{}]}}}})", many));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::invalid);
}

TEST(KernelMessages, BundlesKeepOnlyMimeTypes) {
  json::object content{{"data", {{"text/plain", "a"}, {"no type", "b"}, {"text/a/b", "c"}, {"/x", "d"}}}};
  check_bundle(content);
  EXPECT_EQ(json::serialize(content), R"({"data":{"text/plain":"a"}})");
  json::object none;
  check_bundle(none);
  EXPECT_EQ(json::serialize(none), R"({"data":{}})");
}

TEST(KernelMessages, TypesBecomeEventsOrReplies) {
  EXPECT_EQ(event_of("display_data"), "display");
  EXPECT_EQ(event_of("execute_result"), "result");
  EXPECT_EQ(event_of("comm_open"), "comm_open");
  EXPECT_EQ(event_of("execute_reply"), "");
  EXPECT_TRUE(is_reply("execute_reply"));
  EXPECT_TRUE(is_reply("pong"));
  EXPECT_FALSE(is_reply("stream"));
}

}  // namespace
}  // namespace cove::sandbox
