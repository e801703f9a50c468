#include "egress/policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;
using testing::HasSubstr;

Policy policy(std::string_view text) {
  auto parsed = parse_policy(boost::json::parse(text), "network");
  if (!parsed) throw std::runtime_error(parsed.error().message);
  return *parsed;
}

std::string refused(std::string_view text) {
  const auto parsed = parse_policy(boost::json::parse(text), "network");
  return parsed ? "accepted" : parsed.error().message;
}

bool passes(const Decision& decision) {
  return decision.verdict == Verdict::allowed;
}

TEST(Target, IsReadAndWritten) {
  for (const char* text : {"example.com", "*.example.com:443", "10.0.0.0/8:80,8000-8100", "[2001:db8::/32]:443",
                           "192.0.2.7", "2001:db8::/32", "example.com:22,80-81"})
    EXPECT_EQ(text_of(parse_target(text).value()), text);
  EXPECT_EQ(text_of(parse_target("EXAMPLE.com.:443,80,443,81").value()), "example.com:80-81,443");
  EXPECT_EQ(text_of(parse_target("example.com:*").value()), "example.com");
  EXPECT_EQ(text_of(parse_target("example.com:1-65535").value()), "example.com");
  EXPECT_EQ(text_of(parse_target("[2001:db8::1]").value()), "2001:db8::1");
}

TEST(Target, WhatIsWrongIsNamed) {
  EXPECT_THAT(parse_target("*").error().message, HasSubstr("\"public\""));
  EXPECT_THAT(parse_target("*.").error().message, HasSubstr("\"public\""));
  EXPECT_THAT(parse_target("*:443").error().message, HasSubstr("\"public\""));
  EXPECT_THAT(parse_target("https://example.com").error().message, HasSubstr("URL"));
  EXPECT_THAT(parse_target("example.com/path").error().message, HasSubstr("path"));
  EXPECT_THAT(parse_target("example.com:99999").error().message, HasSubstr("99999"));
  for (const char* text : {"",
                           ":",
                           ":80",
                           "a.*.com",
                           "**.com",
                           "*com",
                           "a:",
                           "a:0",
                           "a:80,",
                           "a:,80",
                           "a:81-80",
                           "a:-",
                           "a:80-",
                           "a:+80",
                           "a: 80",
                           "[::1",
                           "[::1]80",
                           "[a.com]:80",
                           "10.0.0.1/8",
                           "127.1",
                           "0x7f000001",
                           "2130706433",
                           "ok.test@evil.test",
                           "evil#ok",
                           "a b",
                           "10.0.0.0/8/9",
                           "::ffff:1.2.3.4",
                           "1.2.3.4:65536"})
    EXPECT_FALSE(parse_target(text)) << text;
}

TEST(Target, ASuffixIsWholeLabelsAndNotTheNameItself) {
  const auto target = parse_target("*.ok.test").value();
  EXPECT_TRUE(target.matches_name("a.ok.test"));
  EXPECT_TRUE(target.matches_name("a.b.ok.test"));
  for (const char* name : {"ok.test", "evilok.test", ".ok.test", "ok.test.evil.test", "test"})
    EXPECT_FALSE(target.matches_name(name)) << name;
}

TEST(Policy, AnEmptyListDeniesEverything) {
  for (const auto* text :
       {R"({"mode":"allow"})", R"({"mode":"allow","allow":[]})", R"("allow")", R"({})", "null", R"("none")"}) {
    EXPECT_FALSE(passes(decide_name(policy(text), "ok.test", 443))) << text;
    EXPECT_FALSE(passes(decide_name(policy(text), "ok.test", std::nullopt))) << text;
    EXPECT_FALSE(passes(decide_address(policy(text), ip::make_address("1.1.1.1"), 443))) << text;
  }
  EXPECT_EQ(decide_name(policy(R"("none")"), "ok.test", 443).rule, "mode none");
  EXPECT_EQ(decide_name(policy(R"("allow")"), "ok.test", 443).rule, "default");
}

TEST(Policy, WrongInputNamesTheField) {
  EXPECT_EQ(refused("3"), "network: must be an object, or one of \"none\", \"allow\" and \"public\"");
  EXPECT_THAT(refused(R"("host")"), HasSubstr("network: must be \"none\""));
  EXPECT_THAT(refused(R"({"mode":7})"), HasSubstr("network.mode: "));
  EXPECT_THAT(refused(R"({"allow":"x"})"), HasSubstr("network.allow: must be a list"));
  EXPECT_THAT(refused(R"({"allow":["a.test",5]})"), HasSubstr("network.allow[1]: must be a string"));
  EXPECT_THAT(refused(R"({"allow":["a.test","*"]})"), HasSubstr("network.allow[1]: '*' would be every name"));
  EXPECT_THAT(refused(R"({"deny":[{}]})"), HasSubstr("network.deny[0]"));
  EXPECT_THAT(refused(R"({"caps":{"bytes":-1}})"), HasSubstr("network.caps.bytes"));
  EXPECT_THAT(refused(R"({"caps":{"bytes":"1"}})"), HasSubstr("network.caps.bytes"));
  EXPECT_THAT(refused(R"({"caps":{"connections":1.5}})"), HasSubstr("network.caps.connections"));
  EXPECT_THAT(refused(R"({"caps":[]})"), HasSubstr("network.caps"));
  EXPECT_THAT(refused(R"({"learn":1})"), HasSubstr("network.learn"));
  EXPECT_THAT(refused(R"({"mode":"none","learn":true})"), HasSubstr("network.learn"));
  EXPECT_THAT(refused(R"({"resolv":1})"), HasSubstr("there is no 'resolv'"));
  EXPECT_THAT(refused(R"({"headers":[{"host":"a.test","header":"x"}]})"),
              HasSubstr("network.headers[0].value: is missing"));
  EXPECT_THAT(refused(R"({"headers":[{"host":"a.test","header":"Host","value":"x"}]})"),
              HasSubstr("network.headers[0].header"));
  EXPECT_THAT(refused(R"({"headers":[{"host":"*.test","header":"x","value":"x"}]})"),
              HasSubstr("network.headers[0].host"));
  EXPECT_THAT(refused(R"({"headers":[{"host":"a.test","header":"x","value":"a\r\nb"}]})"),
              HasSubstr("network.headers[0].value"));
}

TEST(Policy, HasABoundedNumberOfRules) {
  boost::json::array names;
  for (int i = 0; i < 10'000; ++i) names.emplace_back(fmt::format("h{}.test", i));
  const auto many = parse_policy(boost::json::object{{"allow", names}}, "network");
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, Errc::over_limit);
  boost::json::array networks;
  for (int i = 0; i < 257; ++i) networks.emplace_back(fmt::format("10.{}.{}.0/24", i / 256, i % 256));
  EXPECT_FALSE(parse_policy(boost::json::object{{"allow", networks}}, "network"));
}

TEST(Policy, DuplicatesAreOne) {
  EXPECT_EQ(policy(R"({"allow":["ok.test","OK.test.","ok.test:*"]})").allow.size(), 1U);
}

TEST(Policy, DenyWinsOverAllow) {
  const auto rules = policy(R"({"allow":["*.ok.test"],"deny":["bad.ok.test","half.ok.test:80"]})");
  EXPECT_TRUE(passes(decide_name(rules, "a.ok.test", 80)));
  EXPECT_FALSE(passes(decide_name(rules, "bad.ok.test", 80)));
  EXPECT_FALSE(passes(decide_name(rules, "bad.ok.test", std::nullopt)));
  EXPECT_FALSE(passes(decide_name(rules, "half.ok.test", 80)));
  EXPECT_TRUE(passes(decide_name(rules, "half.ok.test", 443)));
  EXPECT_TRUE(passes(decide_name(rules, "half.ok.test", std::nullopt)));
  EXPECT_EQ(decide_name(rules, "bad.ok.test", 80).rule, "deny bad.ok.test");
}

TEST(Policy, OnlyTheExactNameAndPortPass) {
  const auto rules = policy(R"({"allow":["ok.test:443"]})");
  EXPECT_TRUE(passes(decide_name(rules, "ok.test", 443)));
  EXPECT_TRUE(passes(decide_name(rules, "ok.test", std::nullopt)));
  EXPECT_FALSE(passes(decide_name(rules, "ok.test", 80)));
  for (const char* name : {"ok.test.evil.test", "a.ok.test", "evil.test", "xn--k-eqb.test"})
    EXPECT_FALSE(passes(decide_name(rules, name, 443))) << name;
}

TEST(Policy, ThePublicModeIsForPublicAddresses) {
  const auto rules = policy(R"({"mode":"public","deny":["evil.test","9.9.9.0/24"],"allow":["10.0.0.0/8:80"]})");
  EXPECT_TRUE(passes(decide_name(rules, "anything.test", 1)));
  EXPECT_FALSE(passes(decide_name(rules, "evil.test", 1)));
  EXPECT_TRUE(passes(decide_address(rules, ip::make_address("1.1.1.1"), 53)));
  EXPECT_FALSE(passes(decide_address(rules, ip::make_address("9.9.9.9"), 53)));
  EXPECT_TRUE(passes(decide_address(rules, ip::make_address("10.1.2.3"), 80)));
  EXPECT_FALSE(passes(decide_address(rules, ip::make_address("10.1.2.3"), 81)));
  for (const char* text : {"127.0.0.1", "169.254.169.254", "192.168.0.1", "100.100.100.200", "::1", "fd00:ec2::254",
                           "fe80::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254"}) {
    EXPECT_EQ(decide_address(rules, ip::make_address(text), 80).rule, "private address") << text;
    EXPECT_EQ(decide_resolved(rules, ip::make_address(text), 80).rule, "private address") << text;
  }
}

TEST(Policy, ANameMayHaveAPrivateAddressOnlyIfItIsListedWithThePort) {
  const auto rules = policy(R"({"allow":["ok.test","10.0.0.5:8080"]})");
  EXPECT_TRUE(passes(decide_resolved(rules, ip::make_address("8.8.8.8"), 8080)));
  EXPECT_TRUE(passes(decide_resolved(rules, ip::make_address("10.0.0.5"), 8080)));
  EXPECT_FALSE(passes(decide_resolved(rules, ip::make_address("10.0.0.5"), 80)));
  EXPECT_FALSE(passes(decide_resolved(rules, ip::make_address("10.0.0.6"), 8080)));
}

TEST(Policy, LearningAllowsWhatThePublicModeWould) {
  const auto rules = policy(R"({"mode":"allow","allow":["ok.test:443"],"deny":["evil.test"],"learn":true})");
  EXPECT_EQ(decide_name(rules, "ok.test", 443).rule, "ok.test:443");
  EXPECT_EQ(decide_name(rules, "new.test", 80).rule, "learn");
  EXPECT_FALSE(passes(decide_name(rules, "evil.test", 80)));
  EXPECT_TRUE(passes(decide_address(rules, ip::make_address("1.1.1.1"), 53)));
  EXPECT_FALSE(passes(decide_address(rules, ip::make_address("127.0.0.1"), 53)));
}

TEST(Policy, IsWrittenAsItIsRead) {
  const auto rules = policy(
      R"({"mode":"allow","allow":["ok.test:443"],"deny":["10.0.0.0/8"],"headers":[{"host":"ok.test","ports":"443","header":"Authorization","value":"Bearer s3cret"}],
                                "caps":{"connections":1,"connectionsPerSecond":2,"bytes":3,"bytesPerSecond":4},"learn":true,"checkSni":false})");
  EXPECT_EQ(parse_policy(to_json(rules, Secrets::shown), "network").value(), rules);
  EXPECT_EQ(boost::json::serialize(to_json(rules, Secrets::hidden)).find("s3cret"), std::string::npos);
  EXPECT_EQ(rules.headers.at(0).header, "authorization");
}

TEST(Policy, PrivateTargetsAreToldApart) {
  const auto rules =
      policy(R"({"allow":["ok.test","1.1.1.1","10.0.0.0/8:80","0.0.0.0/0","fd00::/8","8.0.0.0/8","169.254.169.254"]})");
  EXPECT_THAT(private_targets(rules),
              testing::ElementsAre("10.0.0.0/8:80", "0.0.0.0/0", "fd00::/8", "169.254.169.254"));
}

}  // namespace
}  // namespace cove::egress
