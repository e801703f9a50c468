#include "egress/dns_message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;
using namespace std::string_literals;

DnsQuestion question_of(std::string_view message) {
  auto parsed = parse_query(message);
  if (!parsed || !std::holds_alternative<DnsQuestion>(*parsed)) throw std::runtime_error("no question");
  return std::get<DnsQuestion>(*parsed);
}

DnsCode refused(std::string_view message) {
  auto parsed = parse_query(message);
  return parsed && std::holds_alternative<DnsMalformed>(*parsed) ? std::get<DnsMalformed>(*parsed).code : DnsCode::none;
}

// A reply to `query` with these records, which may point to the question's name at 12.
std::string reply_to(std::string query, std::uint16_t answers, const std::string& records, char flags = '\x81',
                     char code = '\x80') {
  query[2] = flags;
  query[3] = code;
  query[6] = static_cast<char>(answers >> 8);
  query[7] = static_cast<char>(answers & 0xff);
  return query + records;
}

const std::string kA = "\0\x01\0\x01\0\0\0\x05\0\x04"s;

TEST(DnsMessage, AQueryIsReadBack) {
  const auto question = question_of(encode_query(0x1234, "ok.test", DnsType::a));
  EXPECT_EQ(question.id, 0x1234);
  EXPECT_EQ(question.name, "ok.test");
  EXPECT_EQ(question.type, DnsType::a);
  EXPECT_TRUE(question.recursion_desired);
  EXPECT_TRUE(question.internet);
  EXPECT_FALSE(question.edns);
}

TEST(DnsMessage, AnAnswerIsReadBack) {
  for (const auto type : {DnsType::a, DnsType::aaaa}) {
    const auto question = question_of(encode_query(7, "ok.test", type));
    const std::vector addresses{ip::make_address("198.18.0.1"), ip::make_address("2001:db8::1")};
    const auto reply = parse_reply(encode_answer(question, DnsCode::none, addresses), 7, "ok.test", type).value();
    EXPECT_EQ(reply.code, DnsCode::none);
    EXPECT_THAT(reply.addresses, testing::ElementsAre(addresses[type == DnsType::a ? 0 : 1]));
  }
}

TEST(DnsMessage, EdnsIsAnsweredWithEdns) {
  auto query = encode_query(7, "ok.test", DnsType::a) + "\0\0\x29\x10\0\0\0\0\0\0\x04\0\x0a\0\0"s;
  query[11] = 1;
  const auto question = question_of(query);
  EXPECT_TRUE(question.edns);
  EXPECT_TRUE(parse_reply(encode_answer(question, DnsCode::none, {}), 7, "ok.test", DnsType::a));
  EXPECT_EQ(refused(query + "x"), DnsCode::format_error);
  EXPECT_EQ(refused(query.substr(0, query.size() - 1)), DnsCode::format_error);
}

TEST(DnsMessage, WhatIsNotOneQueryIsRefused) {
  const auto query = encode_query(7, "ok.test", DnsType::a);
  for (std::size_t size = 12; size < query.size(); ++size)
    EXPECT_EQ(refused(query.substr(0, size)), DnsCode::format_error) << size;
  for (std::size_t size = 0; size < 12; ++size) EXPECT_FALSE(parse_query(query.substr(0, size))) << size;
  EXPECT_EQ(refused(query + '\0'), DnsCode::format_error);
  auto two = query;
  two[5] = 2;
  EXPECT_EQ(refused(two), DnsCode::format_error);
  auto update = query;
  update[2] = 0x28;
  EXPECT_EQ(refused(update), DnsCode::not_implemented);
  auto reply = query;
  reply[2] = '\x80';
  EXPECT_FALSE(parse_query(reply));
  EXPECT_EQ(refused("\0\1\1\0\0\1\0\0\0\0\0\0\xc0\x0c\0\1\0\1"s), DnsCode::format_error) << "a pointer to itself";
  EXPECT_EQ(encode_answer(DnsMalformed{.id = 0x0102, .code = DnsCode::format_error}).substr(0, 4), "\x01\x02\x80\x01"s);
}

TEST(DnsMessage, ALabelWithADotIsNotTwo) {
  auto query = encode_query(7, "okxtest", DnsType::a);
  query[15] = '.';
  EXPECT_EQ(question_of(query).name, "\\");
}

TEST(DnsMessage, AReplyToSomethingElseIsNone) {
  const auto query = encode_query(7, "ok.test", DnsType::a);
  const auto reply = reply_to(query, 1, "\xc0\x0c"s + kA + "\x08\x08\x08\x08");
  ASSERT_TRUE(parse_reply(reply, 7, "ok.test", DnsType::a));
  EXPECT_FALSE(parse_reply(reply, 8, "ok.test", DnsType::a));
  EXPECT_FALSE(parse_reply(reply, 7, "evil.test", DnsType::a));
  EXPECT_FALSE(parse_reply(reply, 7, "ok.test", DnsType::aaaa));
  EXPECT_FALSE(parse_reply(query, 7, "ok.test", DnsType::a));
  for (std::size_t size = 0; size < reply.size(); ++size)
    EXPECT_FALSE(parse_reply(reply.substr(0, size), 7, "ok.test", DnsType::a)) << size;
}

TEST(DnsMessage, AliasesAreFollowedInsideTheAnswerAlone) {
  const auto query = encode_query(7, "ok.test", DnsType::a);
  const auto alias = "\xc0\x0c\0\x05\0\x01\0\0\0\x05\0\x04\x01y\xc0\x0f"s;  // ok.test CNAME y.test
  const auto owned = "\x01y\xc0\x0f"s + kA + "\x08\x08\x08\x08";
  const auto strangers = "\x01z\xc0\x0f"s + kA + "\x09\x09\x09\x09";
  EXPECT_THAT(parse_reply(reply_to(query, 3, strangers + owned + alias), 7, "ok.test", DnsType::a).value().addresses,
              testing::ElementsAre(ip::make_address("8.8.8.8")));
  EXPECT_TRUE(parse_reply(reply_to(query, 2, alias + strangers), 7, "ok.test", DnsType::a).value().addresses.empty());
  const auto loop = "\xc0\x0c\0\x05\0\x01\0\0\0\x05\0\x02\xc0\x0c"s;
  EXPECT_TRUE(parse_reply(reply_to(query, 1, loop), 7, "ok.test", DnsType::a).value().addresses.empty());
}

TEST(DnsMessage, AnAnswerHasABoundedNumberOfAddresses) {
  const auto query = encode_query(7, "ok.test", DnsType::a);
  std::string records;
  for (int i = 0; i < 200; ++i) records += "\xc0\x0c"s + kA + "\x08\x08\x08" + static_cast<char>(i);
  EXPECT_EQ(parse_reply(reply_to(query, 200, records), 7, "ok.test", DnsType::a).value().addresses.size(),
            kMaxDnsAddresses);
}

TEST(DnsMessage, TruncationAndErrorsAreTold) {
  const auto query = encode_query(7, "ok.test", DnsType::a);
  EXPECT_TRUE(parse_reply(reply_to(query, 0, "", '\x83'), 7, "ok.test", DnsType::a).value().truncated);
  EXPECT_EQ(parse_reply(reply_to(query, 0, "", '\x81', '\x83'), 7, "ok.test", DnsType::a).value().code,
            DnsCode::no_such_name);
}

}  // namespace
}  // namespace cove::egress
