#include "mcp/client/event_stream.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cove::mcp::client {
namespace {

// "type:data|type:data", fed in pieces of this size.
std::string read_in(std::string_view text, std::size_t piece, EventStream& stream) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const auto events = stream.feed(text.substr(at, piece));
    if (!events) return events.error().message;
    for (const auto& event : *events) out += (out.empty() ? "" : "|") + event.type + ":" + event.data;
  }
  return out;
}

struct Row {
  const char* name;
  std::string_view text;
  std::string_view events;
};
class Streams : public testing::TestWithParam<Row> {};

TEST_P(Streams, AreReadAlikeInPiecesOfAnySize) {
  for (std::size_t piece = 1; piece <= GetParam().text.size(); ++piece) {
    EventStream stream(1000);
    EXPECT_EQ(read_in(GetParam().text, piece, stream), GetParam().events) << piece;
  }
}
INSTANTIATE_TEST_SUITE_P(, Streams,
                         testing::ValuesIn(std::to_array<Row>({
                             {"One", "data: x\n\n", "message:x"},
                             {"Named", "event: endpoint\ndata: /a\n\n", "endpoint:/a"},
                             {"ManyLines", "data: a\ndata: b\ndata:\n\n", "message:a\nb\n"},
                             {"EveryEndOfALine", "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
                              "message:a|message:b|message:c"},
                             {"Comments", ": hello\n\n:\ndata: a\n: between\n\n", "message:a"},
                             {"Mark",
                              "\xEF\xBB\xBF"
                              "data: a\n\n",
                              "message:a"},
                             {"NoSpace", "data:a\n\ndata:  b\n\n", "message:a|message: b"},
                             {"EmptyData", "data\n\nid: 1\n\n", "message:"},
                             {"UnfinishedIsNothing", "data: a\n", ""},
                             {"UnknownFields", "x: y\ndata: a\nfoo\n\n", "message:a"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(EventStream, RemembersTheLastIdAndTheTimeToWait) {
  EventStream stream(1000);
  EXPECT_EQ(stream.last_id(), std::nullopt);
  EXPECT_EQ(read_in("id: a\nretry: 250\n", 3, stream), "");
  EXPECT_EQ(stream.last_id(), std::nullopt);  // the event is not complete
  EXPECT_EQ(stream.retry(), std::chrono::milliseconds(250));
  EXPECT_EQ(read_in("data:\n\nretry: 1x\nid: b\0c\n\n", 3, stream), "message:");
  EXPECT_EQ(stream.last_id(), "a");
}

TEST(EventStream, RefusesAnEventThatIsTooLarge) {
  EventStream one_line(100);
  EXPECT_EQ(one_line.feed("data: " + std::string(200, 'x')).error().code, Errc::over_limit);
  EventStream many_lines(100);
  std::string text;
  for (int i = 0; i < 50; ++i) text += "data: xxxx\n";
  EXPECT_EQ(many_lines.feed(text).error().code, Errc::over_limit);
}

}  // namespace
}  // namespace cove::mcp::client
