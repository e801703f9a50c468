#include "mcp/client/server_config.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using Kind = ServerConfig::Kind;

Result<ServerConfig> read(std::string_view text) {
  return read_config(json::parse(json::string_view(text.data(), text.size())).as_object());
}

struct KindRow {
  const char* name;
  std::string_view text;
  Kind kind;
};
class Kinds : public testing::TestWithParam<KindRow> {};
TEST_P(Kinds, FollowFromTheTypeAndTheAddress) {
  const auto config = read(GetParam().text);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kind, GetParam().kind);
}
INSTANTIATE_TEST_SUITE_P(, Kinds,
                         testing::ValuesIn(std::to_array<KindRow>({
                             {"Command", R"({"command":"x","args":["a"],"env":{"A":"b"},"cwd":"/w"})", Kind::stdio},
                             {"CommandWithItsType", R"({"type":"stdio","command":"x"})", Kind::stdio},
                             {"Address", R"({"url":"http://e.example/api"})", Kind::automatic},
                             {"AddressOfOurs", R"({"url":"http://e.example/mcp"})", Kind::automatic},
                             {"AddressOfEvents", R"({"url":"http://e.example/sse"})", Kind::sse},
                             {"WordInTheQuery", R"({"url":"http://e.example/x?next=/sse"})", Kind::automatic},
                             {"Http", R"({"url":"http://e.example/sse","type":"http"})", Kind::http},
                             {"Streamable", R"({"url":"http://e.example/x","type":"streamable_http"})", Kind::http},
                             {"Events", R"({"url":"http://e.example/x","type":"sse"})", Kind::sse},
                             {"EventsAtAnAddressOfOurs", R"({"url":"http://e.example/mcp","type":"sse"})",
                              Kind::automatic},
                             {"WithVariables", R"({"url":"http://${HOST}/sse"})", Kind::sse},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ServerConfig, IsTheSameAfterItWasWrittenAndRead) {
  for (
      const auto* text :
      {R"({"command":"x","args":["a","b"],"env":{"A":"${B}"},"cwd":"/w","timeout":1.5,"deny_tools":["x*"]})",
       R"({"url":"https://e.example/x","type":"http","headers":{"X-Key":"${KEY}"},"allow_tools":[],"connect_timeout":3})",
       R"({"url":"https://e.example/sse","auth":{"client_id":"a","private_key":"k","algorithm":"RS256","scope":"s"}})",
       R"({"url":"https://e.example/mcp"})"}) {
    const auto once = read(text);
    ASSERT_TRUE(once) << once.error().message;
    const auto twice = read_config(to_json(*once));
    ASSERT_TRUE(twice) << twice.error().message;
    EXPECT_EQ(*once, *twice) << text;
  }
}

TEST(ServerConfig, ReadsADocumentOfServersAndNamesTheOneThatIsWrong) {
  const auto good =
      read_servers(json::parse(R"({"mcpServers":{"a":{"command":"x"},"b":{"url":"http://e.example"}}})").as_object());
  ASSERT_TRUE(good);
  EXPECT_EQ(good->size(), 2U);
  const auto bad = read_servers(json::parse(R"({"mcpServers":{"a":{"command":5}}})").as_object());
  EXPECT_EQ(bad.error().message, "a: command must be a string");
}

TEST(ServerConfig, ReplacesVariablesEverywhereAndOnlyThem) {
  const auto lookup = [](const std::string& name) -> std::optional<std::string> {
    if (name == "A") return "${B}";
    if (name == "EMPTY") return "";
    return std::nullopt;
  };
  const auto config = substitute(
      *read(R"({"command":"${A}","args":["x${A}y${EMPTY}","$A","${","${1}","${A"],"env":{"V":"${A}${A}"}})"), lookup);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->command, "${B}");  // what a variable says is not read again
  EXPECT_EQ(config->args, (std::vector<std::string>{"x${B}y", "$A", "${", "${1}", "${A"}));
  EXPECT_EQ(config->env.at("V"), "${B}${B}");
  const auto missing = substitute(*read(R"({"url":"http://e.example","headers":{"X":"a ${NOT_THERE}"}})"), lookup);
  EXPECT_EQ(missing.error().code, Errc::invalid);
  EXPECT_TRUE(missing.error().message.starts_with("headers.X refers to ${NOT_THERE}")) << missing.error().message;
}

TEST(ServerConfig, ChecksAgainWhatVariablesHaveMadeOfIt) {
  const auto lookup = [](const std::string&) { return std::optional<std::string>("x\r\nEvil: y"); };
  EXPECT_EQ(substitute(*read(R"({"url":"http://${H}/"})"), lookup).error().code, Errc::invalid);
  EXPECT_EQ(substitute(*read(R"({"url":"http://e.example","headers":{"X":"${H}"}})"), lookup).error().message,
            "headers.X must be one line");
}

TEST(ServerConfig, AdmitsToolsByNameAndPattern) {
  auto config = *read(R"({"command":"x","allow_tools":["read_*","a*c*e"],"deny_tools":["*_secret"]})");
  EXPECT_TRUE(config.admits("read_file"));
  EXPECT_TRUE(config.admits("abcde"));
  EXPECT_FALSE(config.admits("abcd"));
  EXPECT_FALSE(config.admits("read_secret"));
  EXPECT_FALSE(config.admits("write_file"));
  config.allow_tools.reset();
  EXPECT_TRUE(config.admits("write_file"));
  config.allow_tools.emplace();
  EXPECT_FALSE(config.admits("write_file"));
}

}  // namespace
}  // namespace cove::mcp::client
