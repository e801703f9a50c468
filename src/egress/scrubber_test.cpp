#include "egress/scrubber.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.hpp"

namespace cove::egress {
namespace {

TEST(Scrubber, FindsAWordWhereverThePiecesEnd) {
  const std::string text = "before secret-word after, secret-word";
  const std::string wanted = "before *********** after, ***********";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    Scrubber scrubber({"secret-word"});
    std::string passed;
    for (std::size_t at = 0; at < text.size(); at += size) passed += scrubber.pass(text.substr(at, size), false);
    passed += scrubber.pass({}, true);
    EXPECT_EQ(passed, wanted) << size;
  }
}

TEST(Scrubber, PassesEverythingWithoutWordsAtOnce) {
  Scrubber scrubber({});
  EXPECT_EQ(scrubber.pass("abc", false), "abc");
}

TEST(Scrubber, KnowsTheFormsOfASecret) {
  const std::string value = "Bearer a+b/c\"d=";
  const auto forms = forms_of_secret(value);
  for (const auto& text : {std::string("Bearer a+b/c\"d="), std::string("x a+b/c\"d= y"),
                           std::string("a%2Bb%2Fc%22d%3D"), std::string("YStiL2MiZD0="), std::string("a+b/c\\\"d=")}) {
    const auto hidden = Scrubber::scrub(text, forms);
    EXPECT_EQ(hidden.size(), text.size());
    EXPECT_EQ(hidden.find("a+b"), std::string::npos) << hidden;
    EXPECT_NE(hidden.find("****"), std::string::npos) << hidden;
  }
  // A name and a password.
  EXPECT_EQ(Scrubber::scrub("password=hunter22", forms_of_secret("Basic bWU6aHVudGVyMjI=")), "password=********");
}

TEST(Scrubber, FindsWhatIsEscaped) {
  const auto forms = forms_of_secret("Bearer a+b/c\"d=e&f");
  for (const std::string text : {R"(a+b\/c\"d=e&f)", R"(a\u002bb/c\u0022d\u003De\u0026f)", "a%2bb/c%22d=e%26f",
                                 "a%2Bb%2fc%22d%3De&f", "a&#43;b&#x2F;c&quot;d=e&amp;f", "a&#x0002b;b/c&#034;d=e&f",
                                 R"(\x61\x2b\x62\x2f\x63\x22\x64\x3d\x65\x26\x66)", "YStiL2MiZD1lJ"}) {
    const auto hidden = Scrubber::scrub("<" + text + ">", forms);
    if (text != "YStiL2MiZD1lJ") EXPECT_EQ(hidden, "<" + std::string(text.size(), '*') + ">") << text;
    for (std::size_t size = 1; size <= text.size(); ++size) {
      Scrubber scrubber(forms);
      std::string passed;
      for (std::size_t at = 0; at < text.size(); at += size) passed += scrubber.pass(text.substr(at, size), false);
      passed += scrubber.pass({}, true);
      EXPECT_EQ(passed.find("a+"), std::string::npos);
      EXPECT_EQ(passed.size(), text.size());
    }
  }
}

TEST(Scrubber, FindsBase64WhereverItBegins) {
  const std::string secret = "token-of-some-length";
  const auto forms = forms_of_secret(secret);
  for (std::size_t before = 0; before < 6; ++before) {
    for (const std::string after : {"", ".", "..", "..."}) {
      const auto text = base64(std::string(before, '.') + secret + after);
      const auto hidden = Scrubber::scrub(text, forms);
      EXPECT_GE(std::ranges::count(hidden, '*'), static_cast<std::ptrdiff_t>(secret.size() * 8 / 6 - 2)) << hidden;
    }
  }
}

TEST(Scrubber, HoldsNothingBackThatIsNoBeginningOfAWord) {
  Scrubber scrubber(forms_of_secret("Bearer secret-word-of-great-length"));
  EXPECT_EQ(scrubber.pass("data: 1\n\n", false), "data: 1\n\n");
  EXPECT_EQ(scrubber.pass("data: secret-", false), "data: ");
  EXPECT_EQ(scrubber.pass("ive\n\n", false), "secret-ive\n\n");
}

}  // namespace
}  // namespace cove::egress
