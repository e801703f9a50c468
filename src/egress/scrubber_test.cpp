#include "egress/scrubber.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cove::egress
