#include "replay/replay.hpp"

#include <gtest/gtest.h>

namespace cove::replay {
namespace {

store::ActivityRow ended(std::string outcome, std::string result) {
  store::ActivityRow row;
  row.outcome = std::move(outcome);
  row.result_json = std::move(result);
  return row;
}

TEST(Differences, AreNoneBetweenEqualEnds) {
  const auto end = ended("exit 0", R"({"reason":"exited","exitCode":0,"stdout":{"bytes":3,"fingerprint":"ab"}})");
  EXPECT_TRUE(differences(end, end).empty());
}

TEST(Differences, NameTheOutcomeAndTheStream) {
  const auto first = ended("exit 0", R"({"stdout":{"bytes":3,"fingerprint":"ab"}})");
  const auto second =
      ended("exit 1", R"({"stdout":{"bytes":3,"fingerprint":"cd"},"stderr":{"bytes":9,"fingerprint":"e"}})");
  const std::vector<std::string> wanted{"exit 1, was exit 0", "stdout: other 3 bytes", "stderr: 9 bytes, was 0"};
  EXPECT_EQ(differences(first, second), wanted);
}

TEST(Differences, NameTheException) {
  const auto first = ended("error", R"({"ename":"KeyError"})");
  const auto second = ended("error", R"({"ename":"OSError"})");
  EXPECT_EQ(differences(first, second), std::vector<std::string>{"ename: OSError, was KeyError"});
}

}  // namespace
}  // namespace cove::replay
