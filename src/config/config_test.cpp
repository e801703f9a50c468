#include "config/config.hpp"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.hpp"
#include "config/keys.hpp"
#include "config/public_index.hpp"

namespace cove::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A cove.toml for as long as it lives.
class File {
 public:
  explicit File(std::string_view text) {
    UniqueFd fd(::mkstemp(path_));
    EXPECT_TRUE(write_all(fd.get(), text));
  }
  ~File() { ::unlink(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/cove-test-config-XXXXXX";
};

LoadInput nothing() {
  return {.default_file = "", .default_state_dir = "/var/lib/cove"};
}

Result<Config> from(std::string_view text) {
  const File file(text);
  auto input = nothing();
  input.file = file.path();
  return load(input);
}

TEST(Load, GivesTheDefaultsWhenNothingIsSaid) {
  const auto config = load(nothing());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->listen.text(), "127.0.0.1:8000");
  EXPECT_EQ(config->state_dir, "/var/lib/cove");
  EXPECT_EQ(config->on_exit, OnExit::destroy);
  EXPECT_EQ(config->drain, std::chrono::seconds(30));
  EXPECT_EQ(config->sandbox.memory_bytes, 1ULL << 30);
  EXPECT_EQ(config->sandbox.disk_for(config->sandbox.memory_bytes), 512ULL << 20);
  EXPECT_EQ(config->sandbox.ttl, std::chrono::seconds(900));
  EXPECT_EQ(config->sandbox.max_ttl, std::chrono::seconds(604'800));
  EXPECT_EQ(config->exec.max_timeout, std::chrono::seconds(3600));
  EXPECT_GE(config->sandbox.max_cpu_millis, 1000U);
  EXPECT_TRUE(config->log.access);
  EXPECT_TRUE(config->images.empty());
}

TEST(Load, TakesThePublicIndexFromPip) {
  const auto config = from("[dependencies]\nindex = \"public\"\n");
  if (const auto url = public_index()) {
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->dependencies.index, *url);
    EXPECT_THAT(*url, testing::StartsWith("https://"));
  } else {
    ASSERT_FALSE(config);
    EXPECT_THAT(config.error().message, HasSubstr("python3-pip"));
  }
  EXPECT_FALSE(from("[dependencies]\nindex = \"other\"\n"));
}

TEST(Load, ReadsEveryKindFromTheFile) {
  const auto config = from(R"(
listen = "[::1]:9000"
on_exit = "keep"
drain = 5
[log]
level = "debug"
access = false
[http]
allowed_hosts = ["box.example.org", "other:8443"]
[sandbox]
memory = "1Gi"
disk = 67108864
cpus = 0.5
ttl = 1.5
pids = 128
[images]
"python:3.10" = "host"
)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->listen.text(), "[::1]:9000");
  EXPECT_EQ(config->on_exit, OnExit::keep);
  EXPECT_EQ(config->drain, std::chrono::seconds(5));
  EXPECT_EQ(config->log.level, LogLevel::debug);
  EXPECT_FALSE(config->log.access);
  EXPECT_THAT(config->http.allowed_hosts, ElementsAre("box.example.org", "other:8443"));
  EXPECT_EQ(config->sandbox.memory_bytes, 1ULL << 30);
  EXPECT_EQ(config->sandbox.disk_bytes, 64ULL << 20);
  EXPECT_EQ(config->sandbox.cpu_millis, 500U);
  EXPECT_EQ(config->sandbox.ttl, std::chrono::milliseconds(1500));
  EXPECT_EQ(config->sandbox.pids, 128U);
  EXPECT_EQ(config->images.at("python:3.10"), "host");
}

TEST(Load, GivesASandboxHalfOfItsMemoryAsDiskSpaceUnlessItIsSet) {
  const auto with = [](Settings flags) {
    return load({.default_file = "", .default_state_dir = "/s", .flags = std::move(flags)});
  };
  const auto small = with({{"sandbox.memory", "128M"}});
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(small->sandbox.disk_for(128ULL << 20), 64ULL << 20);
  EXPECT_EQ(small->sandbox.disk_for(64ULL << 30), small->sandbox.max_disk_bytes);
  const auto set = with({{"sandbox.disk", "100M"}});
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->sandbox.disk_for(4ULL << 30), 100ULL << 20);
  EXPECT_FALSE(with({{"sandbox.disk", "1K"}}));
}

TEST(Load, TakesAFlagOverTheEnvironmentOverTheFile) {
  const File file("[sandbox]\nmemory = \"1G\"\npids = 100\nmax_pids = 1000\n");
  auto input = nothing();
  input.file = file.path();
  input.environment = {{"COVE_SANDBOX_PIDS", "200"}, {"COVE_SANDBOX_MAX_PIDS", "2000"}, {"COVE_LOG_LEVEL", ""}};
  input.flags = {{"sandbox.max_pids", "3000"}};
  const auto config = load(input);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->sandbox.memory_bytes, 1ULL << 30);
  EXPECT_EQ(config->sandbox.pids, 200U);
  EXPECT_EQ(config->sandbox.max_pids, 3000U);
  EXPECT_EQ(config->log.level, LogLevel::info) << "an empty variable is as good as none";
}

TEST(Load, FindsTheFileByFlagThenVariableThenPlace) {
  const File one("listen = \"127.0.0.1:1\"");
  const File two("listen = \"127.0.0.1:2\"");
  const File three("listen = \"127.0.0.1:3\"");
  LoadInput input{.file = one.path(), .default_file = three.path(), .default_state_dir = "/x"};
  input.environment = {{"COVE_CONFIG", two.path()}};
  EXPECT_EQ(load(input)->listen.port, 1);
  EXPECT_EQ(load(input)->file, one.path());
  input.file.clear();
  EXPECT_EQ(load(input)->listen.port, 2);
  input.environment.clear();
  EXPECT_EQ(load(input)->listen.port, 3);
}

TEST(Load, FailsWhenAFileThatWasNamedIsNotThere) {
  auto input = nothing();
  input.file = "/nonexistent/cove.toml";
  const auto config = load(input);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, Errc::not_found);
  EXPECT_THAT(config.error().message, HasSubstr("/nonexistent/cove.toml"));
}

struct WrongFile {
  const char* name;
  std::string_view text;
  std::vector<std::string_view> said;
};
class Wrong : public testing::TestWithParam<WrongFile> {};

TEST_P(Wrong, FileIsRefusedWithKeyLineAndReason) {
  const auto config = from(GetParam().text);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, Errc::invalid);
  for (const auto& part : GetParam().said) EXPECT_THAT(config.error().message, HasSubstr(part));
}
INSTANTIATE_TEST_SUITE_P(
    , Wrong,
    testing::ValuesIn(std::vector<WrongFile>{
        {"Syntax", "listen = \n", {"cove-test-config", ":1: "}},
        {"LettersThatTheParserDoesNotExpect", "gr\u00f6\u00dfe = 1", {":1: "}},
        {"QuotesThatTheParserDoesNotExpect", "[http]\na'''''''' = 1", {":2: "}},
        {"BadValue", "\n[sandbox]\nmemory = \"lots\"\n", {"sandbox.memory (", ":3): ", "is not a size"}},
        {"WrongType", "drain = true", {"drain (", "must be a duration"}},
        {"TextForANumber", "max_sandboxes = \"5\"", {"max_sandboxes (", "must be a whole number"}},
        {"TextForABoolean", "allow_degraded = \"no\"", {"must be true or false"}},
        {"NumberForText", "state_dir = 5", {"must be a string"}},
        {"TextForAList", "[http]\nallowed_hosts = \"a\"", {"must be a list of strings"}},
        {"NumberInAList", "[http]\nallowed_hosts = [1]", {"must be a list of strings"}},
        {"NumberInAMap", "[images]\na = 1", {"images (", "must be a table of strings"}},
        {"Slip",
         "[sandbox]\nmemry = \"1G\"",
         {"sandbox.memry (", ":2): ", "there is no such key; did you mean sandbox.memory?"}},
        {"WrongTable", "[exec]\nmax_ttl = 5", {"did you mean sandbox.max_ttl?"}},
        {"UnknownTable", "[sandboxes]\nttl = 5", {"sandboxes (", "there is no such key"}},
        {"NothingLikeIt", "zzzzzzzz = 5", {"zzzzzzzz (", "there is no such key"}},
        {"AboveTheMost",
         "[sandbox]\nmemory = \"9G\"",
         {"sandbox.memory (", "9G is more than sandbox.max_memory (8G, the default)"}},
        {"MostBelowTheDefault",
         "[sandbox]\nmax_pids = 10",
         {"sandbox.pids (the default): 256 is more than sandbox.max_pids (10, /tmp/"}},
        {"DiskAsLargeAsMemory",
         "[sandbox]\ndisk = \"1G\"",
         {"sandbox.disk (", "1G must be below sandbox.memory (1G, the default)"}},
        {"RelativeStateDir", "state_dir = \"here\"", {"state_dir (", "is not an absolute path"}},
        {"TwoAtOnce", "drain = \"x\"\non_exit = \"y\"", {"drain (", "\non_exit ("}},
    }),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Load, NamesTheVariableAndTheFlagThatAreWrong) {
  auto input = nothing();
  input.environment = {{"COVE_DRAIN", "soon"}};
  input.flags = {{"listen", "nowhere"}};
  const auto config = load(input);
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("drain (COVE_DRAIN): 'soon' is not a duration"));
  EXPECT_THAT(config.error().message, HasSubstr("listen (--listen): 'nowhere' is not an address"));
}

TEST(Load, OffersNothingFarFetched) {
  EXPECT_THAT(from("zzzzzzzz = 5").error().message, testing::Not(HasSubstr("did you mean")));
}

TEST(Reload, AppliesWhatCanChangeAndNamesTheRest) {
  const auto running = *load(nothing());
  auto input = nothing();
  input.flags = {{"listen", "127.0.0.1:9"}, {"drain", "1s"}, {"sandbox.memory", "2G"}, {"images", "a=host"}};
  const auto plan = plan_reload(running, *load(input));
  EXPECT_THAT(plan.applied, ElementsAre("drain", "sandbox.memory", "images"));
  EXPECT_THAT(plan.need_restart, ElementsAre("listen"));
  EXPECT_EQ(plan.config.listen, running.listen);
  EXPECT_EQ(plan.config.drain, std::chrono::seconds(1));
  EXPECT_EQ(plan.config.images.at("a"), "host");
}

TEST(Reload, OfTheSameChangesNothing) {
  const auto running = *load(nothing());
  const auto plan = plan_reload(running, running);
  EXPECT_TRUE(plan.applied.empty());
  EXPECT_TRUE(plan.need_restart.empty());
  EXPECT_EQ(plan.config, running);
}

TEST(Load, UnderstandsTheVariablesOfCodeInterpreters) {
  const auto with = [](Settings environment, Settings flags = {}) {
    auto config = load({.default_file = "", .default_state_dir = "/s", .environment = environment, .flags = flags});
    EXPECT_TRUE(config) << config.error().message;
    return config.value_or(Config());
  };
  const auto config = with({{"MAX_EXEC_TIMEOUT_MS", "1500"},
                            {"MAX_OUTPUT_BYTES", "20"},
                            {"CPU_TIME_LIMIT_SEC", "7"},
                            {"MEMORY_LIMIT_MB", "64"},
                            {"MAX_CONCURRENT_EXECUTIONS", "3"},
                            {"EXECUTION_QUEUE_TIMEOUT_SEC", "0"},
                            {"EXECUTION_RETRY_AFTER_SEC", "4"},
                            {"CAPACITY_RETRY_AFTER_SEC", "8"},
                            {"BACKEND_CHECK_TIMEOUT_SEC", "0.5"},
                            {"FILE_STORAGE_DIR", "/srv/files"},
                            {"MAX_FILE_SIZE_MB", "10"},
                            {"FILE_TTL_SEC", "60"},
                            {"LOG_LEVEL", "WARNING"},
                            {"LOG_FORMAT", "json"}});
  EXPECT_EQ(config.execute.max_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(config.execute.output_limit_bytes, 20U);
  EXPECT_EQ(config.execute.cpu_time, std::chrono::seconds(7));
  EXPECT_EQ(config.execute.memory_bytes, 64U << 20);
  EXPECT_EQ(config.execute.max_concurrent, 3U);
  EXPECT_EQ(config.execute.queue_timeout.count(), 0);
  EXPECT_EQ(config.execute.retry_after, std::chrono::seconds(4));
  EXPECT_EQ(config.execute.capacity_retry_after, std::chrono::seconds(8));
  EXPECT_EQ(config.execute.check_timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(config.files.directory, "/srv/files");
  EXPECT_EQ(config.files.max_size_bytes, 10U << 20);
  EXPECT_EQ(config.files.ttl, std::chrono::minutes(1));
  EXPECT_EQ(config.log.level, LogLevel::warn);
  EXPECT_EQ(config.log.format, LogFormat::json);

  EXPECT_EQ(with({{"FILE_TTL_SEC", ""}, {"LOG_LEVEL", "chatty"}}), with({})) << "empty and senseless: the default";
  EXPECT_EQ(with({{"FILE_TTL_SEC", "60"}, {"COVE_FILES_TTL", "2m"}}).files.ttl, std::chrono::minutes(2));
  EXPECT_EQ(with({{"FILE_TTL_SEC", "60"}}, {{"files.ttl", "3m"}}).files.ttl, std::chrono::minutes(3));
  EXPECT_EQ(with({{"HOST", "0.0.0.0"}, {"PORT", "9101"}}).listen, with({}, {{"listen", "0.0.0.0:9101"}}).listen);
  EXPECT_EQ(with({{"HOST", "::1"}}).listen, with({}, {{"listen", "[::1]:8000"}}).listen);
  EXPECT_EQ(with({{"HOST", "some-machine"}, {"PORT", "9"}}).listen, with({}, {{"listen", "127.0.0.1:9"}}).listen);
  EXPECT_EQ(with({{"HOST", "some-machine"}, {"PORT", ""}}).listen, with({}).listen);
  EXPECT_EQ(with({{"PORT", "9"}, {"COVE_LISTEN", "127.0.0.1:7"}}).listen, with({}, {{"listen", "127.0.0.1:7"}}).listen);
  const auto wrong =
      load({.default_file = "", .default_state_dir = "/s", .environment = {{"MEMORY_LIMIT_MB", "lots"}}});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, testing::StartsWith("execute.memory (MEMORY_LIMIT_MB): "));
}

TEST(Load, UnderstandsTheVariablesOfWorkspaceServers) {
  const auto with = [](Settings environment) {
    auto config = load({.default_file = "", .default_state_dir = "/s", .environment = std::move(environment)});
    EXPECT_TRUE(config) << config.error().message;
    return *config;
  };
  const auto config = with({{"SANDBOX_CPU_QUOTA", "3"},
                            {"SANDBOX_MEMORY_LIMIT", "131072"},
                            {"SANDBOX_ALLOW_NETWORK", "Yes"},
                            {"SANDBOX_TIMEOUT_SECONDS", "60"},
                            {"SANDBOX_MAX_USER_PROGRESS", "7"},
                            {"SANDBOX_POOL_SIZE", "5"},
                            {"MEMORY_LIMIT", "2G"},
                            {"WORKSPACE_EXPIRATION_TIME", "3600"},
                            {"EFAST_DOWNLOADER_URL", "https://documents.example"},
                            {"EFAST_TOKEN", "t"},
                            {"DOWNLOADER_TIMEOUT", "9"},
                            {"log_level", "ERROR"}});
  EXPECT_EQ(config.workspace.handler_cpu_millis, 3000U) << "cores";
  EXPECT_EQ(config.workspace.handler_memory_bytes, 128U << 20) << "KB";
  EXPECT_TRUE(config.workspace.network);
  EXPECT_EQ(config.workspace.timeout, std::chrono::minutes(1));
  EXPECT_EQ(config.workspace.handler_processes, 7U);
  EXPECT_EQ(config.workspace.handler_pool, 5U);
  EXPECT_EQ(config.workspace.memory_bytes, 2ULL << 30);
  EXPECT_EQ(config.workspace.expiration, std::chrono::hours(1));
  EXPECT_EQ(config.workspace.efast_url, "https://documents.example");
  EXPECT_EQ(config.workspace.efast_token, "t");
  EXPECT_EQ(config.workspace.efast_timeout, std::chrono::seconds(9));
  EXPECT_EQ(config.log.level, LogLevel::error);
  EXPECT_EQ(with({{"EXECUTION_TIMEOUT", "7"}}).mcp.timeout, std::chrono::seconds(7));
  EXPECT_EQ(with({{"MEMORY_LIMIT", "300"}}).workspace.memory_bytes, 300U << 20) << "a bare number is MB";
  EXPECT_EQ(with({{"MEMORY_LIMIT", "32GB"}}).workspace.memory_bytes, 32ULL << 30);
  EXPECT_EQ(with({}).workspace.efast_url, "http://efast-private:9123");
}

TEST(Load, RefusesADocumentStoreThatNobodyCouldFind) {
  for (const auto* url :
       {"efast", "ftp://host/", "http://", "http://:80", "http://host:0", "http://host:99999", "http://host:x",
        "http://a b/", "http://host/?q", "http://host/#f", "http://user:pass@host/"}) {
    const auto loaded = load({.default_state_dir = "/x", .environment = {{"EFAST_DOWNLOADER_URL", url}}});
    ASSERT_FALSE(loaded) << url;
    EXPECT_THAT(loaded.error().message, testing::HasSubstr("workspace.efast_url (EFAST_DOWNLOADER_URL): ")) << url;
  }
  for (const auto* url : {"http://efast-private:9123", "https://documents.example/base/", "http://[::1]:80/x"})
    EXPECT_TRUE(load({.default_state_dir = "/x", .environment = {{"EFAST_DOWNLOADER_URL", url}}})) << url;
}

TEST(Environment, HoldsOnlyWhatIsOurs) {
  ::setenv("COVE_TEST_ONLY", "a=b", 1);
  const auto found = cove_environment();
  EXPECT_EQ(found.at("COVE_TEST_ONLY"), "a=b");
  EXPECT_FALSE(found.contains("PATH"));
  ::unsetenv("COVE_TEST_ONLY");
}

}  // namespace
}  // namespace cove::config
