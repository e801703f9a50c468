#include "doors/jupyter/message.hpp"

#include <gtest/gtest.h>

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;

Message sample() {
  return {.channel = "iopub",
          .header = {{"msg_id", "k1"}, {"msg_type", "stream"}},
          .parent_header = {{"msg_id", "a1"}},
          .metadata = {},
          .content = {{"name", "stdout"}, {"text", "grüße\n"}},
          .buffers = {}};
}

void expect_same(const Message& a, const Message& b) {
  EXPECT_EQ(a.channel, b.channel);
  EXPECT_EQ(a.header, b.header);
  EXPECT_EQ(a.parent_header, b.parent_header);
  EXPECT_EQ(a.metadata, b.metadata);
  EXPECT_EQ(a.content, b.content);
  EXPECT_EQ(a.buffers, b.buffers);
}

TEST(JupyterMessage, LegacyTextCarriesTheTypeAndIdAtTheTop) {
  const auto frame = encode(Framing::legacy, sample());
  EXPECT_TRUE(frame.text);
  const auto object = json::parse(frame.data).as_object();
  EXPECT_EQ(object.at("msg_id"), "k1");
  EXPECT_EQ(object.at("msg_type"), "stream");
  EXPECT_EQ(object.at("buffers"), json::array());
  expect_same(decode(Framing::legacy, true, frame.data).value(), sample());
}

TEST(JupyterMessage, BuffersMakeALegacyFrameBinary) {
  auto message = sample();
  message.buffers = {"", std::string("\0\xff", 2), "abc"};
  const auto frame = encode(Framing::legacy, message);
  EXPECT_FALSE(frame.text);
  EXPECT_EQ(frame.data.substr(0, 8), std::string("\0\0\0\4\0\0\0\x14", 8));  // four parts, the first behind the offsets
  expect_same(decode(Framing::legacy, false, frame.data).value(), message);
}

TEST(JupyterMessage, V1HasItsOffsetsAsTheSpecificationCountsThem) {
  auto message = sample();
  const auto frame = encode(Framing::v1, message);
  EXPECT_FALSE(frame.text);
  EXPECT_EQ(frame.data[0], 6);   // five parts and the end
  EXPECT_EQ(frame.data[8], 56);  // the first behind them
  expect_same(decode(Framing::v1, false, frame.data).value(), message);
  message.buffers = {"x", ""};
  expect_same(decode(Framing::v1, false, encode(Framing::v1, message).data).value(), message);
}

TEST(JupyterMessage, ClientsMayLeaveOutChannelAndGiveBuffersAsAnObject) {
  const auto message =
      decode(Framing::legacy, true, R"({"header":{"msg_type":"x"},"content":{},"buffers":{}})").value();
  EXPECT_EQ(message.channel, "shell");
  EXPECT_EQ(message.type(), "x");
  EXPECT_TRUE(message.buffers.empty());
}

struct Bad {
  const char* name;
  Framing framing;
  bool text;
  std::string data;
};
class BadFrame : public testing::TestWithParam<Bad> {};

TEST_P(BadFrame, IsRefused) {
  const auto& row = GetParam();
  const auto decoded = decode(row.framing, row.text, row.data);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, Errc::invalid);
}

INSTANTIATE_TEST_SUITE_P(
    , BadFrame,
    testing::Values(Bad{"NotJson", Framing::legacy, true, "{"}, Bad{"AList", Framing::legacy, true, "[]"},
                    Bad{"HeaderIsText", Framing::legacy, true, R"({"header":"x"})"},
                    Bad{"TooDeep", Framing::legacy, true, std::string(1000, '[')},
                    Bad{"Empty", Framing::legacy, false, ""},
                    Bad{"NoParts", Framing::legacy, false, std::string(4, '\0')},
                    Bad{"ManyParts", Framing::legacy, false, std::string("\x7f\xff\xff\xff", 4)},
                    Bad{"OffsetBeforeTheHeader", Framing::legacy, false, std::string("\0\0\0\1\0\0\0\0{}", 10)},
                    Bad{"OffsetBehindTheEnd", Framing::legacy, false, std::string("\0\0\0\1\0\0\1\0{}", 10)},
                    Bad{"TextInV1", Framing::v1, true, "{}"},
                    Bad{"FewParts", Framing::v1, false,
                        std::string("\2\0\0\0\0\0\0\0\x18\0\0\0\0\0\0\0\x18\0\0\0\0\0\0\0", 24)},
                    Bad{"CountPastTheEnd", Framing::v1, false, std::string("\6\0\0\0\0\0\0\0", 8)}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cove::doors::jupyter
