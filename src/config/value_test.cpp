#include "config/value.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace cove::config {
namespace {

struct AddressCase {
  const char* name;
  std::string_view given;
  std::string_view want;  // "" = refused
  bool loopback = false;
};
class Address : public testing::TestWithParam<AddressCase> {};

TEST_P(Address, IsReadOrRefused) {
  const auto endpoint = parse_endpoint(GetParam().given);
  EXPECT_EQ(endpoint ? endpoint->text() : "", GetParam().want);
  if (endpoint) EXPECT_EQ(endpoint->loopback(), GetParam().loopback);
}
INSTANTIATE_TEST_SUITE_P(, Address,
                         testing::ValuesIn(std::to_array<AddressCase>({
                             {"Loopback", "127.0.0.1:8000", "127.0.0.1:8000", true},
                             {"AnotherLoopback", "127.9.9.9:1", "127.9.9.9:1", true},
                             {"Localhost", "localhost:8000", "127.0.0.1:8000", true},
                             {"Everywhere", "0.0.0.0:80", "0.0.0.0:80"},
                             {"AFreePort", "127.0.0.1:0", "127.0.0.1:0", true},
                             {"SixLoopback", "[::1]:8000", "[::1]:8000", true},
                             {"SixEverywhere", "[::]:8000", "[::]:8000"},
                             {"MappedLoopbackIsNotTrusted", "[::ffff:127.0.0.1]:8000", "[::ffff:127.0.0.1]:8000",
                              false},
                             {"NoPort", "127.0.0.1", ""},
                             {"EmptyPort", "127.0.0.1:", ""},
                             {"PortTooLarge", "127.0.0.1:65536", ""},
                             {"SignedPort", "127.0.0.1:+80", ""},
                             {"Name", "example.org:80", ""},
                             {"SixWithoutBrackets", "::1:8000", ""},
                             {"FourInBrackets", "[127.0.0.1]:80", ""},
                             {"NoHost", ":8000", ""},
                             {"Nothing", "", ""},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

struct ValueCase {
  const char* name;
  std::string_view key;
  std::string_view given;
  std::string_view want;  // as shown; "!reason" = refused with that in the message
};
class Value : public testing::TestWithParam<ValueCase> {};

TEST_P(Value, IsReadOrRefusedWithAReason) {
  const auto& row = GetParam();
  const auto* key = find_key(row.key);
  ASSERT_NE(key, nullptr);
  Config config;
  const auto done = put(config, *key, row.given);
  if (row.want.starts_with('!')) {
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, testing::HasSubstr(row.want.substr(1)));
  } else {
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(shown(config, *key), row.want);
  }
}
INSTANTIATE_TEST_SUITE_P(, Value,
                         testing::ValuesIn(std::to_array<ValueCase>({
                             {"Size", "sandbox.memory", "1Gi", "1G"},
                             {"SizeInBytes", "sandbox.memory", "33554432", "32M"},
                             {"SizeTooSmall", "sandbox.memory", "1M", "!not between 8M and 16T"},
                             {"NoSize", "sandbox.memory", "lots", "!is not a size"},
                             {"Duration", "drain", "90", "90s"},
                             {"NoDuration", "drain", "soon", "!is not a duration"},
                             {"DurationTooLong", "drain", "2d", "!not between"},
                             {"Cores", "sandbox.cpus", "0.5", "0.5"},
                             {"NegativeCores", "sandbox.cpus", "-1", "!is not a number of cores"},
                             {"NotANumberOfCores", "sandbox.cpus", "nan", "!is not a number of cores"},
                             {"NoCores", "sandbox.cpus", "0", "!not between 0.01 and 1024"},
                             {"Count", "sandbox.pids", "128", "128"},
                             {"FractionOfACount", "sandbox.pids", "1.5", "!is not a whole number"},
                             {"NegativeCount", "sandbox.pids", "-1", "!is not a whole number"},
                             {"CountTooLarge", "sandbox.pids", "4294967297", "!not between"},
                             {"Choice", "on_exit", "keep", "keep"},
                             {"NoChoice", "on_exit", "maybe", "!is not one of destroy, keep"},
                             {"Yes", "log.access", "ON", "true"},
                             {"No", "log.access", "0", "false"},
                             {"Perhaps", "log.access", "perhaps", "!is not true or false"},
                             {"Hosts", "http.allowed_hosts", "Box.example.org, other:8443,[::1]:80",
                              "box.example.org,other:8443,[::1]:80"},
                             {"NoHosts", "http.allowed_hosts", "", ""},
                             {"AnyHost", "http.allowed_hosts", "*", "!is not a host"},
                             {"HostWithADotBehind", "http.allowed_hosts", "a.example.", "!is not a host"},
                             {"UrlForAHost", "http.allowed_hosts", "http://a", "!is not a host"},
                             {"Origin", "http.allowed_origins", "https://A.example:444", "https://a.example:444"},
                             {"OriginWithAPath", "http.allowed_origins", "https://a.example/x", "!is not an origin"},
                             {"NullOrigin", "http.allowed_origins", "null", "!is not an origin"},
                             {"Images", "images", "python:3.10=host,a=b/c=host", "a=b/c=host,python:3.10=host"},
                             {"ImageWithoutTemplate", "images", "python:3.10", "!is not IMAGE=TEMPLATE"},
                             {"TemplateThatIsAPath", "images", "python=../x", "!is not a template name"},
                             {"EmptyDirectory", "state_dir", "", "!must not be empty"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Listener, IsAnAddressAndASandbox) {
  const auto listener = parse_listener("[::1]:8888=sandbox:my box=1");
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_EQ(listener->endpoint, (Endpoint{.host = "::1", .port = 8888}));
  EXPECT_EQ(listener->sandbox, "my box=1");
  for (const auto* wrong :
       {"", "127.0.0.1:1", "127.0.0.1:1=sandbox:", "=sandbox:a", "nobody:1=sandbox:a", "127.0.0.1:1=box:a"})
    EXPECT_FALSE(parse_listener(wrong)) << wrong;
}

TEST(Keys, AreNamedByOneRule) {
  const auto* key = find_key("sandbox.max_memory");
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(key->env(), "COVE_SANDBOX_MAX_MEMORY");
  EXPECT_EQ(key->flag(), "--sandbox-max-memory");
  EXPECT_EQ(key->section(), "sandbox");
  EXPECT_EQ(find_key("sandbox"), nullptr);
}

TEST(Keys, HaveDistinctNamesHelpAndADefaultThatIsAllowed) {
  std::set<std::string> seen;
  for (const auto& key : keys()) {
    EXPECT_TRUE(seen.insert(key.env()).second && seen.insert(key.flag()).second) << key.name;
    EXPECT_FALSE(key.help.ends_with('.')) << key.name;
    EXPECT_EQ(key.help.empty(), key.name == "mcp.fixtures") << key.name;
    EXPECT_EQ(key.kind == Kind::choice, !key.choices.empty()) << key.name;
    Config config;
    if (key.name == "state_dir") continue;
    const auto done = put(config, key, key.fallback);
    EXPECT_TRUE(done) << key.name << ": " << done.error().message;
  }
}

// Every field is reached by one key: two configurations differ in exactly what was put.
TEST(Keys, FillOneFieldEach) {
  for (const auto& key : keys()) {
    Config before;
    Config after;
    const char* other = key.kind == Kind::boolean    ? (shown(before, key) == "true" ? "false" : "true")
                        : key.kind == Kind::choice   ? key.choices.back().data()
                        : key.kind == Kind::address  ? "0.0.0.0:1"
                        : key.kind == Kind::list     ? (key.name == "http.allowed_origins" ? "http://a"
                                                        : key.name == "listeners"          ? "127.0.0.1:0=sandbox:a"
                                                        : key.name.ends_with(".allow")     ? "a:1"
                                                                                           : "a")
                        : key.kind == Kind::map      ? "a=host"
                        : key.kind == Kind::duration ? "1s"
                        : key.kind == Kind::size     ? (key.most != 0 && key.most < (16U << 20) ? "512K" : "16M")
                        : key.kind == Kind::count    ? (key.most != 0 && key.most < 2000 ? "50" : "2000")
                        : key.kind == Kind::cores    ? "3"
                                                     : "/x";
    ASSERT_TRUE(put(after, key, other)) << key.name;
    for (const auto& every : keys()) EXPECT_EQ(same(before, after, every), every.name != key.name) << key.name;
    copy(after, before, key);
    EXPECT_EQ(before, after);
  }
}

}  // namespace
}  // namespace cove::config
