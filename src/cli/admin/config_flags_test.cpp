#include "cli/admin/config_flags.hpp"

#include <gmock/gmock.h>

#include "config/keys.hpp"

namespace cove::cli {
namespace {

config::Settings parsed(const Words& words) {
  App app;
  ConfigFlags flags;
  flags.describe(app);
  EXPECT_TRUE(app.parse(words));
  return flags.given();
}

TEST(ConfigFlags, GiveWhatWasGivenAndNothingElse) {
  EXPECT_TRUE(parsed({}).empty());
  EXPECT_EQ(parsed({"--listen", "0.0.0.0:80", "--sandbox-memory=1G"}),
            (config::Settings{{"listen", "0.0.0.0:80"}, {"sandbox.memory", "1G"}}));
}

TEST(ConfigFlags, TakeBooleansWithAndWithoutAWord) {
  EXPECT_EQ(parsed({"--allow-degraded"}), (config::Settings{{"allow_degraded", "true"}}));
  EXPECT_EQ(parsed({"--log-access=false"}), (config::Settings{{"log.access", "false"}}));
}

TEST(ConfigFlags, JoinListsThatAreGivenAgain) {
  EXPECT_EQ(parsed({"--http-allowed-hosts", "a", "--http-allowed-hosts", "b,c"}),
            (config::Settings{{"http.allowed_hosts", "a,b,c"}}));
  EXPECT_EQ(parsed({"--images", "python:3.10=host"}), (config::Settings{{"images", "python:3.10=host"}}));
}

TEST(ConfigFlags, OfListenersForOneSandboxMayBeGivenAsListen) {
  EXPECT_EQ(
      parsed({"--listen", "127.0.0.1:8000", "--listen", "127.0.0.1:0=sandbox:a", "--listen", "[::1]:1=sandbox:b"}),
      (config::Settings{{"listen", "127.0.0.1:8000"}, {"listeners", "127.0.0.1:0=sandbox:a,[::1]:1=sandbox:b"}}));
  EXPECT_EQ(parsed({"--listeners", "127.0.0.1:2=sandbox:a", "--listen", "127.0.0.1:0=sandbox:b"}),
            (config::Settings{{"listeners", "127.0.0.1:2=sandbox:a,127.0.0.1:0=sandbox:b"}}));
  // Two addresses of the server's own are none.
  EXPECT_EQ(parsed({"--listen", "127.0.0.1:1", "--listen", "127.0.0.1:2"}),
            (config::Settings{{"listen", "127.0.0.1:1,127.0.0.1:2"}}));
}

TEST(ConfigFlags, AreAllInTheHelpWithDefaultAndVariable) {
  App app;
  ConfigFlags flags;
  flags.describe(app);
  const auto help = app.help();
  for (const auto& key : config::keys()) {
    if (key.help.empty()) {
      EXPECT_THAT(help, testing::Not(testing::HasSubstr(key.flag())));
      continue;
    }
    EXPECT_THAT(help, testing::HasSubstr(key.flag()));
    EXPECT_THAT(help, testing::HasSubstr("[" + key.env() + "]"));
  }
}

TEST(ConfigFlags, LoadToAConfiguration) {
  const auto config = config::load({.default_file = "",
                                    .default_state_dir = "/x",
                                    .flags = parsed({"--http-allowed-hosts", "a", "--http-allowed-hosts", "b",
                                                     "--log-access=false", "--sandbox-cpus", "0.5"})});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->http.allowed_hosts, testing::ElementsAre("a", "b"));
  EXPECT_FALSE(config->log.access);
  EXPECT_EQ(config->sandbox.cpu_millis, 500U);
}

}  // namespace
}  // namespace cove::cli
