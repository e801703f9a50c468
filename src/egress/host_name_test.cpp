#include "egress/host_name.hpp"

#include <gtest/gtest.h>

namespace cove::egress {
namespace {

TEST(HostName, HasOneSpelling) {
  EXPECT_EQ(canonical_name("OK.Test").value(), "ok.test");
  EXPECT_EQ(canonical_name("ok.test.").value(), "ok.test");
  EXPECT_EQ(canonical_name("a_b.ok.test").value(), "a_b.ok.test");
  EXPECT_EQ(canonical_name("localhost").value(), "localhost");
  EXPECT_EQ(canonical_name("1and1.com").value(), "1and1.com");
  EXPECT_EQ(canonical_name("0x.example.org").value(), "0x.example.org");
}

TEST(HostName, IsWrittenInALabels) {
  EXPECT_EQ(canonical_name("Bücher.example").value(), "xn--bcher-kva.example");
  EXPECT_EQ(canonical_name("straße.example").value(), "xn--strae-oqa.example");
  EXPECT_EQ(canonical_name("ｅｘａｍｐｌｅ.com").value(), "example.com");
  EXPECT_EQ(canonical_name("例え。テスト").value(), "xn--r8jz45g.xn--zckzah");
  EXPECT_EQ(canonical_name("xn--bcher-kva.example").value(), "xn--bcher-kva.example");
  EXPECT_FALSE(canonical_ascii_name("bücher.example"));
}

TEST(HostName, AHomographIsAnotherName) {
  EXPECT_NE(canonical_name("оk.test").value(), "ok.test");  // a Cyrillic letter
}

TEST(HostName, WhatCouldBeAnAddressIsNoName) {
  for (const char* text :
       {"127.0.0.1", "127.1", "0x7f000001", "0x7f.1", "2130706433", "0", "0177.0.0.1", "017700000001", "0x",
        "169.254.169.254.", "a.0x7f", "a.1", "::1", "[::1]", "[::ffff:127.0.0.1]", "[::]", "１２７.０.０.１"})
    EXPECT_FALSE(canonical_name(text)) << text;
}

TEST(HostName, WhatIsNotANameIsRefused) {
  const std::string long_label(64, 'a');
  std::string long_name;
  for (int i = 0; i < 64; ++i) long_name += "abc.";
  for (const std::string& text : {std::string(),
                                  std::string("."),
                                  std::string(".."),
                                  std::string("a..b"),
                                  std::string(".a"),
                                  std::string("a.."),
                                  std::string(" ok.test"),
                                  std::string("ok.test "),
                                  std::string("ok.test\n"),
                                  std::string("ok.test\0.evil.test", 18),
                                  std::string("ok.test%00.evil.test"),
                                  std::string("ok.test@evil.test"),
                                  std::string("evil.test#ok.test"),
                                  std::string("ok.test:80"),
                                  std::string("ok.test/x"),
                                  std::string("-a.test"),
                                  std::string("a-.test"),
                                  std::string("*.test"),
                                  long_label + ".test",
                                  long_name,
                                  std::string("\xff.test"),
                                  std::string("a\xc0\x80.test"),
                                  std::string("ok.test\x7f")})
    EXPECT_FALSE(canonical_name(text)) << text;
  EXPECT_TRUE(canonical_name(long_label.substr(1) + ".test"));
}

TEST(HostName, AnErrorHasNoControlBytes) {
  const auto message = canonical_name("a\x1b[31m.test").error().message;
  EXPECT_TRUE(std::ranges::all_of(message, [](char c) { return c >= ' '; })) << message;
}

}  // namespace
}  // namespace cove::egress
