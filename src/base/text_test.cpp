#include "base/text.hpp"

#include <gtest/gtest.h>

#include <array>

#include "base/sha256.hpp"

namespace cove {
namespace {

struct Row {
  const char* name;
  std::string_view given;
  std::string_view want;
};
class Utf8 : public testing::TestWithParam<Row> {};

TEST_P(Utf8, IsKeptOrReplaced) {
  EXPECT_EQ(replace_invalid_utf8(GetParam().given), GetParam().want);
  EXPECT_EQ(valid_utf8(GetParam().given), GetParam().given == GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, Utf8,
                         testing::ValuesIn(std::to_array<Row>({
                             {"Ascii", "abc", "abc"},
                             {"Nul", {"a\0b", 3}, {"a\0b", 3}},
                             {"FourBytes", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
                             {"LoneContinuation", "a\x80z", "a\xef\xbf\xbdz"},
                             {"Overlong", "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
                             {"Surrogate", "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                             {"PastTheEnd", "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                             {"CutShort", "x\xe2\x82", "x\xef\xbf\xbd"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Base64, PadsAsRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("\xff\xfe"), "//4=");
}

TEST(Base64, ComesBackAsItWent) {
  for (const std::string& bytes :
       {std::string(), std::string("a"), std::string("ab"), std::string("abc"), std::string("\xff\0\x7f~", 4)}) {
    EXPECT_EQ(from_base64(base64(bytes)), bytes);
    EXPECT_EQ(from_base64url(to_base64url(bytes)), bytes);
  }
}

TEST(Base64, RefusesWhatItNeverWrote) {
  for (const char* text : {"a", "a b=", "YQ*=", "\xc3\xa4=="}) EXPECT_FALSE(from_base64(text)) << text;
  EXPECT_FALSE(from_base64url("+/"));
}

TEST(Base64, HasOneTextForAValue) {
  EXPECT_EQ(from_base64("YQ=="), "a");
  EXPECT_EQ(from_base64("YWI="), "ab");
  for (const std::string_view bad : {"YQ", "YQ=", "Y===", "YR==", "YWJ=", "====", "YQ==YQ==", "Y Q=", "YQ-_"}) {
    EXPECT_EQ(from_base64(bad), std::nullopt) << bad;
    if (bad != "YQ") EXPECT_EQ(from_base64(bad, Padding::optional), std::nullopt) << bad;
  }
  EXPECT_EQ(from_base64("YQ", Padding::optional), "a");
  EXPECT_EQ(from_base64url("YQ"), "a");
  EXPECT_EQ(from_base64url("YQ=="), "a");
}

// RFC 4231, cases 2 and 6.
TEST(Hmac, IsAsTheStandardHasIt) {
  EXPECT_EQ(hmac_sha256_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_sha256_hex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace cove
