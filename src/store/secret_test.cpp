#include "store/secret.hpp"

#include <gmock/gmock.h>

#include <set>

#include "base/sha256.hpp"

namespace cove::store {
namespace {

TEST(Sha256, IsTheStandardOne) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(NewKey, IsLongPlainAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto key = new_key();
    EXPECT_THAT(key, testing::MatchesRegex("cove_[A-Za-z0-9]{43}"));
    EXPECT_TRUE(seen.insert(key).second);
  }
  EXPECT_THAT(new_key_id(), testing::MatchesRegex("key_[a-z2-7]{16}"));
}

TEST(NewKey, UsesEveryCharacter) {
  std::set<char> seen;
  for (int i = 0; i < 200; ++i) {
    const auto key = new_key().substr(kKeyPrefix.size());
    seen.insert(key.begin(), key.end());
  }
  EXPECT_EQ(seen.size(), 62U);
}

TEST(ShownPrefix, TellsFourCharactersOfTheSecret) {
  EXPECT_EQ(shown_prefix("cove_abcdefgh"), "cove_abcd");
  EXPECT_EQ(shown_prefix("cove_"), "cove_");
}

TEST(EqualInConstantTime, ComparesWholeTexts) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abcd"));
  EXPECT_FALSE(equal_in_constant_time("", "a"));
}

}  // namespace
}  // namespace cove::store
