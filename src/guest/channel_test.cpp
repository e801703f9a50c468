#include "guest/channel.hpp"

#include <gmock/gmock.h>

#include "wire/init_messages.hpp"

namespace cove::guest {
namespace {

std::optional<std::string> through(MessageReader& reader, std::string_view message) {
  std::optional<std::string> got;
  for (const auto& record : records_of(message)) {
    EXPECT_LE(record.size(), wire::kMaxRecord);
    auto added = reader.add(record);
    EXPECT_TRUE(added);
    if (added && *added) got = **added;
  }
  return got;
}

TEST(Channel, MessagesOfEverySizeComeBack) {
  MessageReader reader(1U << 20);
  for (const std::size_t size : {0U, 1U, 65534U, 65535U, 65536U, 131070U, 500'000U}) {
    const std::string message(size, 'x');
    EXPECT_EQ(through(reader, message), message) << size;
  }
}

TEST(Channel, WhoComesInTheMiddleWaitsForTheNextMessage) {
  MessageReader reader(1U << 20);
  const auto records = records_of(std::string(100'000, 'x'));
  ASSERT_EQ(records.size(), 2U);
  const auto tail = reader.add(records[1]);
  ASSERT_TRUE(tail);
  EXPECT_FALSE(*tail);
  EXPECT_EQ(through(reader, "next"), "next");
}

TEST(Channel, AFirstRecordForgetsWhatWasNotFinished) {
  MessageReader reader(1U << 20);
  ASSERT_TRUE(reader.add(records_of(std::string(100'000, 'x'))[0]));
  EXPECT_EQ(through(reader, "whole"), "whole");
}

TEST(Channel, RefusesRecordsWithoutFlagsAndMessagesWithoutEnd) {
  MessageReader reader(100);
  EXPECT_FALSE(reader.add(""));
  EXPECT_FALSE(reader.add("\x04x"));
  EXPECT_FALSE(reader.add("\xffx"));
  ASSERT_TRUE(reader.add("\x01" + std::string(60, 'x')));
  EXPECT_FALSE(reader.add(std::string(1, '\0') + std::string(60, 'x')));
}

TEST(Channel, AMessageThatIsTooLargeIsRefusedOnceAndPassedOver) {
  MessageReader reader(100);
  ASSERT_TRUE(reader.add("\x01" + ("head" + std::string(56, 'x'))));
  const auto refused = reader.add(std::string(1, '\0') + std::string(60, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::over_limit);
  EXPECT_TRUE(reader.head().starts_with("headx"));
  const auto rest = reader.add("\x02" + std::string(60, 'x'));
  ASSERT_TRUE(rest);
  EXPECT_FALSE(*rest);
  EXPECT_EQ(through(reader, "next"), "next");
}

TEST(LastOf, IsTheLastWholeMessage) {
  EXPECT_EQ(last_of({}, 10), std::nullopt);
  EXPECT_EQ(last_of({"\3first", "\1sec", "\2ond"}, 10), "second");
  EXPECT_EQ(last_of({"\3first", "\1half"}, 10), "first");
  EXPECT_EQ(last_of({"\3first", "\3much too large"}, 10), std::nullopt) << "what it said last cannot be told";
}

}  // namespace
}  // namespace cove::guest
