// packaging/cove.toml.sample documents every key with its default: prose is "# text", a key that can be switched on is
// "#key = value".
#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "base/io.hpp"
#include "config/config.hpp"
#include "config/keys.hpp"

namespace cove::config {
namespace {

std::string sample() {
  auto text = read_file_at(AT_FDCWD, COVE_SAMPLE);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}

std::string switched_on(const std::string& text) {
  return std::regex_replace(text, std::regex("(^|\n)#(?=[a-z_]+ = )"), "$1");
}

Result<Config> loaded(const std::string& text) {
  char path[] = "/tmp/cove-test-sample-XXXXXX";
  UniqueFd fd(::mkstemp(path));
  EXPECT_TRUE(write_all(fd.get(), text));
  auto config = load({.file = path, .default_state_dir = "/var/lib/cove"});
  ::unlink(path);
  if (config) config->file.clear();
  return config;
}

Config defaults() {
  return load({.default_file = "", .default_state_dir = "/var/lib/cove"}).value();
}

TEST(Sample, ChangesNothingAsItIs) {
  const auto config = loaded(sample());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(*config, defaults());
}

TEST(Sample, ShowsTheDefaults) {
  const auto config = loaded(switched_on(sample()));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(*config, defaults());
}

// The keys it names, in order.
std::vector<std::string> named(const std::string& text) {
  std::vector<std::string> names;
  std::string section;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, std::regex(R"(\[([a-z]+)\])"))) {
      section = match[1];
      if (find_key(section) != nullptr) names.push_back(section);
    } else if (std::regex_match(line, match, std::regex("([a-z_]+) = .*"))) {
      names.push_back((section.empty() ? "" : section + ".") + match[1].str());
    }
  }
  return names;
}

TEST(Sample, NamesEveryKeyOnceInTheOrderOfTheTable) {
  std::vector<std::string> all;
  for (const auto& key : keys()) {
    if (!key.help.empty()) all.emplace_back(key.name);
  }
  EXPECT_EQ(named(switched_on(sample())), all);
}

TEST(Sample, SaysWhichKeysNeedARestart) {
  // The paragraph above a key ends in "(restart)".
  const auto text = sample();
  for (const auto& key : keys()) {
    if (key.kind == Kind::map || key.help.empty()) continue;
    const auto word = key.name.substr(key.name.rfind('.') + 1);
    const auto section = key.section().empty() ? 0 : text.find(fmt::format("\n[{}]\n", key.section()));
    ASSERT_NE(section, std::string::npos) << key.name;
    const auto at = text.find(fmt::format("\n#{} = ", word), section);
    ASSERT_NE(at, std::string::npos) << key.name;
    const auto paragraph = text.substr(0, at).substr(text.rfind("\n\n", at));
    EXPECT_EQ(paragraph.find("(restart)") != std::string::npos, key.reload == Reload::restart) << key.name;
  }
}

}  // namespace
}  // namespace cove::config
