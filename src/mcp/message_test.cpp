#include "mcp/message.hpp"

#include <gtest/gtest.h>

#include "mcp/revision.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;

tl::expected<Message, Unusable> read(std::string_view text, Strictness strictness = Strictness::strict) {
  return read_message(json::parse(text), strictness);
}

TEST(Message, IdsKeepTheirType) {
  for (const auto* id : {R"("one")", "0", "-5", "9007199254740991"}) {
    const auto message = read(std::string(R"({"jsonrpc":"2.0","method":"x","id":)") + id + "}");
    ASSERT_TRUE(message);
    EXPECT_EQ(message->kind, Message::Kind::request);
    EXPECT_EQ(json::serialize(message->id), id);
    EXPECT_EQ(json::serialize(result_message(message->id, {})),
              std::string(R"({"jsonrpc":"2.0","id":)") + id + R"(,"result":{}})");
  }
}

TEST(Message, WithoutAnIdNobodyWaits) {
  EXPECT_EQ(read(R"({"jsonrpc":"2.0","method":"x"})")->kind, Message::Kind::notification);
}

TEST(Message, WhatIsWrongIsNamedAndAnsweredToItsId) {
  const auto refused = [](std::string_view text, Strictness strictness = Strictness::strict) {
    const auto message = read(text, strictness);
    return message ? std::string("taken")
                   : json::serialize(error_message(message.error().id, message.error().fault, UnknownId::null));
  };
  EXPECT_NE(refused(R"({"id":9,"method":"x"})").find(R"("id":9,"error":{"code":-32600)"), std::string::npos);
  EXPECT_EQ(refused(R"({"id":9,"method":"x"})", Strictness::lenient), "taken");
  EXPECT_NE(refused(R"({"jsonrpc":"1.0","id":9,"method":"x"})", Strictness::lenient).find("-32600"), std::string::npos);
  EXPECT_NE(refused(R"({"jsonrpc":"2.0","id":9,"method":"x","params":[1]})").find(R"("id":9,"error":{"code":-32602)"),
            std::string::npos);
  EXPECT_NE(refused(R"({"jsonrpc":"2.0","id":null,"method":"x"})").find(R"("id":null,"error":{"code":-32600)"),
            std::string::npos);
  EXPECT_NE(refused(R"({"jsonrpc":"2.0","id":1.5,"method":"x"})").find(R"("id":null,"error":{"code":-32600)"),
            std::string::npos);
  EXPECT_NE(refused(R"("text")").find("-32600"), std::string::npos);
  EXPECT_NE(refused(R"({"jsonrpc":"2.0","id":1,"method":5})").find("-32600"), std::string::npos);
}

TEST(Message, AnswersAreKnownByTheirResultOrError) {
  EXPECT_EQ(read(R"({"jsonrpc":"2.0","id":1,"result":{"a":1}})")->kind, Message::Kind::response);
  const auto failed = read(R"({"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}})");
  EXPECT_EQ(failed->fault.code, Code::method_not_found);
  EXPECT_EQ(failed->fault.message, "no");
}

TEST(Message, AnUnknownIdIsNullOrLeftOut) {
  const Fault fault{.code = Code::parse_error, .message = "Parse error"};
  EXPECT_EQ(json::serialize(error_message(nullptr, fault, UnknownId::null)),
            R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}})");
  EXPECT_EQ(json::serialize(error_message(nullptr, fault, UnknownId::omitted)),
            R"({"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}})");
}

TEST(Revision, IsNegotiated) {
  for (const auto name : kRevisionNames) {
    if (name == "2026-07-28") continue;
    EXPECT_EQ(name_of(negotiate(name)), name);
  }
  EXPECT_EQ(name_of(negotiate("1999-01-01")), "2025-11-25");
  EXPECT_EQ(name_of(negotiate("2026-07-28")), "2025-11-25");
  EXPECT_EQ(name_of(negotiate("2024-10-07")), "2024-11-05");
  EXPECT_EQ(name_of(negotiate(std::nullopt)), "2024-11-05");
}

}  // namespace
}  // namespace cove::mcp
