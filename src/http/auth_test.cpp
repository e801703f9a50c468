#include "http/auth.hpp"

#include <gtest/gtest.h>

#include <array>

#include "base/text.hpp"

namespace cove::http {
namespace {

using namespace std::chrono_literals;

class Keys : public Authenticator {
 public:
  explicit Keys(bool is_open) : open_(is_open) {}
  std::optional<Principal> check(std::string_view key) override {
    if (key != "cove_right" && key != "plain-secret") return std::nullopt;
    return Principal{.tenant = "acme", .key_id = "k1"};
  }
  bool open() override { return open_; }
  bool still_valid(const Principal& principal) override { return principal.tenant == "acme"; }

 private:
  bool open_;
};

std::string basic(std::string_view pair) {
  return "Basic " + base64(pair);
}

struct Row {
  const char* name;
  std::vector<std::string> authorization;
  std::vector<std::string> api_key;
  std::string prefix;
  std::string_view want;       // tenant, or "401"
  std::string_view want_open;  // the same of a server that wants no keys
  std::vector<std::string> query_tokens = {};
};
class AuthTable : public testing::TestWithParam<Row> {};

std::string tenant_or_401(Authenticator& authenticator, const Row& row) {
  const std::vector<std::string_view> authorization(row.authorization.begin(), row.authorization.end());
  const std::vector<std::string_view> api_key(row.api_key.begin(), row.api_key.end());
  const auto decision = authenticate(authenticator, parse_credentials({.authorization = authorization,
                                                                       .api_key = api_key,
                                                                       .prefix = row.prefix,
                                                                       .query_tokens = row.query_tokens}));
  return decision.verdict == Verdict::allowed ? decision.principal.tenant : "401";
}

TEST_P(AuthTable, FindsThePrincipal) {
  Keys closed(false);
  EXPECT_EQ(tenant_or_401(closed, GetParam()), GetParam().want);
  Keys open(true);
  EXPECT_EQ(tenant_or_401(open, GetParam()), GetParam().want_open);
}
INSTANTIATE_TEST_SUITE_P(
    , AuthTable,
    testing::ValuesIn(std::to_array<Row>({
        {"Nothing", {}, {}, "", "401", "default"},
        {"Bearer", {"Bearer cove_right"}, {}, "", "acme", "acme"},
        {"ApiKey", {}, {"cove_right"}, "", "acme", "acme"},
        {"ApiKeyOfAnotherShape", {}, {"plain-secret"}, "", "acme", "acme"},
        {"Prefix", {}, {}, "cove_right", "acme", "acme"},
        {"BasicUser", {basic("cove_right:")}, {}, "", "acme", "acme"},
        {"BasicPassword", {basic("anything:cove_right")}, {}, "", "acme", "acme"},
        {"BasicPlain", {basic("me:plain-secret")}, {}, "", "acme", "acme"},
        {"BasicWrong", {basic("me:you")}, {}, "", "401", "default"},
        {"BasicForAProxyAndAKey", {basic("me:you")}, {"cove_right"}, "", "acme", "acme"},
        {"BasicWithTwoKeys", {basic("cove_right:cove_other")}, {}, "", "401", "401"},
        {"BasicNotBase64", {"Basic !!!!"}, {}, "", "401", "default"},
        {"BasicEmpty", {basic(":")}, {}, "", "401", "default"},
        {"WrongKey", {"Bearer cove_wrong"}, {}, "", "401", "401"},
        {"PrefixOfTheKey", {"Bearer cove_righ"}, {}, "", "401", "401"},
        {"SuffixAdded", {"Bearer cove_rightx"}, {}, "", "401", "401"},
        {"EmptyBearer", {"Bearer"}, {}, "", "401", "default"},
        {"EmptyAuthorization", {""}, {}, "", "401", "default"},
        {"SomebodyElsesKey", {"Bearer sk-dummy"}, {}, "", "401", "default"},
        {"SchemeCase", {"bearer cove_right"}, {}, "", "401", "default"},
        {"NoScheme", {"cove_right"}, {}, "", "401", "default"},
        {"TwoHeaders", {"Bearer cove_right", "Bearer cove_right"}, {}, "", "401", "401"},
        {"TwoApiKeys", {}, {"cove_right", "cove_right"}, "", "401", "401"},
        {"SameKeyInThreePlaces", {"Bearer cove_right"}, {"cove_right"}, "cove_right", "acme", "acme"},
        {"Contradiction", {"Bearer cove_right"}, {"cove_wrong"}, "", "401", "401"},
        {"ContradictionWithPrefix", {"Bearer cove_wrong"}, {}, "cove_right", "401", "401"},
        {"Token", {"token cove_right"}, {}, "", "acme", "acme"},
        {"TokenCapital", {"Token cove_right"}, {}, "", "401", "default"},
        {"TokenOfAnotherShape", {"token plain-secret"}, {}, "", "acme", "acme"},
        {"TokenWrong", {"token cove_wrong"}, {}, "", "401", "401"},
        {"TokenOfAnotherServer", {"token abcdef"}, {}, "", "401", "default"},
        {"TokenEmpty", {"token"}, {}, "", "401", "default"},
        {"TokenEmptyBesideAKey", {"token "}, {"cove_right"}, "", "acme", "acme"},
        {"TokenThatIsAnotherScheme", {"tokens cove_right"}, {}, "", "401", "default"},
        {"TokenContradiction", {"token cove_right"}, {"cove_wrong"}, "", "401", "401"},
        {"QueryToken", {}, {}, "", "acme", "acme", {"cove_right"}},
        {"QueryTokenEmpty", {}, {}, "", "401", "default", {""}},
        {"QueryTokenWrong", {}, {}, "", "401", "401", {"cove_wrong"}},
        {"QueryTokenTwice", {}, {}, "", "acme", "acme", {"cove_right", "cove_right"}},
        {"QueryTokensDiffer", {}, {}, "", "401", "401", {"cove_right", "cove_wrong"}},
        {"QueryTokenContradiction", {"token cove_right"}, {}, "", "401", "401", {"cove_wrong"}},
        {"VeryLong", {"Bearer cove_" + std::string(30'000, 'a')}, {}, "", "401", "401"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

struct UserRow {
  const char* name;
  std::string pair;
  std::string_view want;
};
class BasicUser : public testing::TestWithParam<UserRow> {};

TEST_P(BasicUser, IsANameUnlessItIsAKey) {
  const auto value = basic(GetParam().pair);
  EXPECT_EQ(parse_credentials({.authorization = {value}, .api_key = {}}).user, GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, BasicUser,
                         testing::ValuesIn(std::to_array<UserRow>({
                             {"WithAKey", "demo:cove_right", "demo"},
                             {"WithASecret", "demo:plain-secret", "demo"},
                             {"Alone", "demo:", "demo"},
                             {"Key", "cove_right:", ""},
                             {"Nothing", ":cove_right", ""},
                             {"TwoKeys", "cove_right:cove_other", ""},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Decision, TellsWhichKeyCounted) {
  Keys keys(false);
  const auto value = basic("plain-secret:");
  const auto decision = authenticate(keys, parse_credentials({.authorization = {value}, .api_key = {}}));
  EXPECT_EQ(decision.key, "plain-secret");
}

TEST(Redaction, ReplacesTokensOfTheQuery) {
  EXPECT_EQ(redact_target("/api/kernels?token=abc&x=1"), "/api/kernels?token=***&x=1");
  EXPECT_EQ(redact_target("/api?x=1&%74oken=abc"), "/api?x=1&%74oken=***");
  EXPECT_EQ(redact_target("/api?%zz=abc"), "/api?%zz=***");
  EXPECT_EQ(redact_target("/api?tokens=abc&token&1794765743248"), "/api?tokens=abc&token&1794765743248");
  EXPECT_EQ(redact_target("/cove_abc/api?key=cove_def"), "/cove_***/api?key=cove_***");
  EXPECT_EQ(redact_target("/api?"), "/api?");
  EXPECT_EQ(redact_target("/token=abc"), "/token=abc");
}

TEST(Redaction, ReplacesEveryKey) {
  EXPECT_EQ(redact_keys("/cove_abc-1/v1?a=cove_x&b=1"), "/cove_***/v1?a=cove_***&b=1");
  EXPECT_EQ(redact_keys("/v1/recover"), "/v1/recover");
  EXPECT_EQ(redact_keys("/%63ove_abc/v1"), "/cove_***/v1");
  EXPECT_EQ(redact_keys("/co%76e%5Fabc%2d1/v1"), "/cove_***/v1");
  EXPECT_EQ(redact_keys("/COVE_abc/v1"), "/cove_***/v1");
  EXPECT_EQ(redact_keys("/a%20b%zz%"), "/a%20b%zz%");
}

TEST(FailureThrottle, AllowsABurstAndThenARate) {
  FailureThrottle throttle({.burst = 3, .per_second = 2});
  const auto now = std::chrono::steady_clock::now();
  EXPECT_TRUE(throttle.admit("a", now));
  EXPECT_TRUE(throttle.admit("a", now));
  EXPECT_TRUE(throttle.admit("a", now));
  EXPECT_FALSE(throttle.admit("a", now));
  EXPECT_TRUE(throttle.admit("b", now));
  EXPECT_TRUE(throttle.admit("a", now + 500ms));
  EXPECT_FALSE(throttle.admit("a", now + 500ms));
}

TEST(FailureThrottle, RemembersOnlySoManyPeers) {
  FailureThrottle throttle({.burst = 1, .per_second = 1, .peers = 2});
  const auto now = std::chrono::steady_clock::now();
  EXPECT_TRUE(throttle.admit("a", now));
  EXPECT_TRUE(throttle.admit("b", now));
  EXPECT_FALSE(throttle.admit("c", now));
  EXPECT_TRUE(throttle.admit("c", now + 2s));
}

}  // namespace
}  // namespace cove::http
