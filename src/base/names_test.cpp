#include "base/names.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace cove {
namespace {

TEST(Names, PackagesAreNamedAsDebianNamesThem) {
  for (const auto* name : {"python3", "g++", "libc6", "0ad", "python3.11-minimal", "lib32stdc++-12-dev"})
    EXPECT_TRUE(is_package_name(name)) << name;
}

TEST(Names, NothingThatAptOrAShellWouldReadAsMoreIsAPackage) {
  for (const auto* name : {"",        "a",           "--allow-unauthenticated",
                           "-y",      "foo;rm",      "foo rm",
                           "../x",    "/etc/passwd", "foo=1",
                           "foo/sid", "foo:i386",    "foo*",
                           "^foo",    "foo$",        "?essential",
                           "~nfoo",   "foo-",        "Foo",
                           "foo\n",   "foo,bar",     "föö",
                           "+foo",    ".foo",        "foo_bar"})
    EXPECT_FALSE(is_package_name(name)) << name;
  EXPECT_FALSE(is_package_name(std::string_view("ab\0c", 4)));
  EXPECT_TRUE(is_package_name(std::string(100, 'a')));
  EXPECT_FALSE(is_package_name(std::string(101, 'a')));
}

TEST(Names, ModulesAreWordsWithDotsBetween) {
  for (const auto* name : {"numpy", "matplotlib.pyplot", "_ssl", "a1"}) EXPECT_TRUE(is_module_name(name)) << name;
  for (const auto* name : {"", ".", "a.", ".a", "a..b", "1a", "a-b", "a b", "a\n", "a/b", "--x"})
    EXPECT_FALSE(is_module_name(name)) << name;
}

TEST(Names, TemplatesHaveNoPathInTheirName) {
  for (const auto* name : {"host", "py-3.11", "a_b", "0"}) EXPECT_TRUE(is_template_name(name)) << name;
  for (const auto* name : {"", ".", "..", "../x", "a/b", "-a", "A", "a b", "a\n"})
    EXPECT_FALSE(is_template_name(name)) << name;
  EXPECT_TRUE(is_template_name(std::string(64, 'a')));
  EXPECT_FALSE(is_template_name(std::string(65, 'a')));
}

}  // namespace
}  // namespace cove
