#include "mcp/input.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace cove::mcp {
namespace {

namespace json = boost::json;

std::vector<std::string> taken(Input& input) {
  std::vector<std::string> out;
  while (!input.empty()) {
    const auto item = input.take();
    if (const auto* value = std::get_if<json::value>(&item))
      out.push_back(json::serialize(*value));
    else
      out.emplace_back(std::holds_alternative<Input::TooLong>(item)           ? "too long"
                       : std::holds_alternative<Input::TooManyElements>(item) ? "too many elements"
                                                                              : "malformed");
  }
  return out;
}

std::vector<std::string> messages(std::string_view text) {
  Input input;
  input.feed(text);
  input.give_up();
  return taken(input);
}

using Texts = std::vector<std::string>;

TEST(Input, OneMessageALine) {
  EXPECT_EQ(messages("{\"a\":1}\n{\"b\":2}\r\n"), (Texts{R"({"a":1})", R"({"b":2})"}));
}

TEST(Input, BlankLinesAreNothing) {
  EXPECT_EQ(messages("\n  \t\r\n{\"a\":1}\n\n"), (Texts{R"({"a":1})"}));
}

TEST(Input, AByteOrderMarkBeforeAMessageIsNothing) {
  EXPECT_EQ(messages("\xEF\xBB\xBF{\"a\":1}\n{\"b\":2}\n"), (Texts{R"({"a":1})", R"({"b":2})"}));
  EXPECT_EQ(messages("\xEF\xBB\xBF\n{\"a\":1}\n"), (Texts{R"({"a":1})"}));
}

TEST(Input, TheLastLineNeedsNoEnd) {
  EXPECT_EQ(messages("{\"a\":1}"), (Texts{R"({"a":1})"}));
}

TEST(Input, AMessageOverManyLinesIsOne) {
  EXPECT_EQ(messages("{\n  \"a\": [\n    1,\n\n    2\n  ]\n}\n{\"b\":2}\n"), (Texts{R"({"a":[1,2]})", R"({"b":2})"}));
}

TEST(Input, WhateverTheCutsAre) {
  const std::string text = "{\n \"a\": \"\xc3\xa9\"\n}\nnot json\n[1]\n";
  Input input;
  for (const char c : text) input.feed(std::string_view(&c, 1));
  input.give_up();
  EXPECT_EQ(taken(input), (Texts{"{\"a\":\"\xc3\xa9\"}", "malformed", "[1]"}));
}

TEST(Input, AMessageOfTooManyElementsIsNotParsedOnOneLineOrMany) {
  std::string zeros;
  for (std::size_t i = 0; i <= Input::kMaxElements; ++i) zeros += "0,";
  EXPECT_EQ(messages("[" + zeros + "0]\n{\"a\":1}\n"), (Texts{"too many elements", R"({"a":1})"}));
  EXPECT_EQ(messages("[\n" + zeros + "\n").front(), "too many elements");
}

TEST(Input, ALineThatIsNoJsonCostsItselfAlone) {
  EXPECT_EQ(messages("not json\n{\"a\":1}\n"), (Texts{"malformed", R"({"a":1})"}));
  EXPECT_EQ(messages("{\"a\":1} trailing\n{\"a\":1}\n"), (Texts{"malformed", R"({"a":1})"}));
}

TEST(Input, AMessageBehindTheRuinsOfAnotherIsFound) {
  EXPECT_EQ(messages("{\n \"a\":\n{\"b\":1}\n{\"c\":2}\n"), (Texts{"malformed", R"({"c":2})"})) << "nested, then wrong";
  EXPECT_EQ(messages("{\n \"a\": 1\n{\"b\":1}\n"), (Texts{"malformed", R"({"b":1})"}));
}

TEST(Input, WhatIsNeverFinishedIsMalformed) {
  Input input;
  input.feed("{\n \"a\": 1,\n");
  EXPECT_TRUE(input.unfinished());
  EXPECT_TRUE(input.empty());
  input.give_up();
  EXPECT_FALSE(input.unfinished());
  EXPECT_EQ(taken(input), (Texts{"malformed"}));
}

TEST(Input, TooMuchIsRefusedOnceAndTheNextLineIsRead) {
  Input input;
  const std::string part(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) input.feed(part);
  input.feed("\n{\"a\":1}\n");
  EXPECT_EQ(taken(input), (Texts{"too long", R"({"a":1})"}));
}

TEST(Input, DepthIsBounded) {
  EXPECT_EQ(messages(std::string(100'000, '[') + "\n[1]\n"), (Texts{"malformed", "[1]"}));
}

}  // namespace
}  // namespace cove::mcp
