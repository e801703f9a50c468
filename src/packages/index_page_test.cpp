#include "packages/index_page.hpp"

#include <gtest/gtest.h>

namespace cove::packages {
namespace {

const auto kBase = outbound::parse_url("https://index.test/simple/six/").value();

TEST(IndexPage, FindsTheWheelsWhereverTheyLie) {
  const auto links = read_index_page(R"(<!DOCTYPE html><HTML><body><h1>Links</h1>
<a href="../../files/six-1.0-py3-none-any.whl#sha256=abc" data-requires-python="&gt;=3.6">six</a>
<A data-yanked HREF='https://files.test/six-1.1-py3-none-any.whl'>x</A>
<a href=//other.test/six-1.2-py3-none-any.whl>y</a>
<a href="six-1.0.tar.gz">sdist</a> <a href="javascript:six.whl">no</a> <a name="x">no</a> <abbr href="a.whl">no</abbr>
<a href="http://u:p@h/six-9-py3-none-any.whl">no</a> <a href="ftp://h/six-9.whl">no</a>
<a href="six%22onclick-1.3-py3-none-any.whl">no</a> <a href="unfinished.whl)",
                                     kBase)
                         .value();
  ASSERT_EQ(links.size(), 4U);
  EXPECT_EQ(links[0].url.text(), "https://index.test/files/six-1.0-py3-none-any.whl");
  EXPECT_EQ(links[0].file, "six-1.0-py3-none-any.whl");
  EXPECT_EQ(links[0].fragment, "sha256=abc");
  EXPECT_EQ(links[0].requires_python, ">=3.6");
  EXPECT_TRUE(links[1].yanked);
  EXPECT_EQ(links[1].url.host, "files.test");
  EXPECT_EQ(links[2].url.text(), "https://other.test/six-1.2-py3-none-any.whl");
  EXPECT_EQ(links[3].url.text(), "https://index.test/simple/six/unfinished.whl");
}

TEST(IndexPage, IsWrittenSoThatNothingBreaksOutOfIt) {
  IndexLink link{.url = kBase, .file = "six-1.0-py3-none-any.whl", .fragment = "sha256=ab"};
  link.requires_python = "\"><script>&";
  const auto page = write_index_page({link}, "/files/", 7);
  EXPECT_NE(page.find("<a href=\"/files/7/six-1.0-py3-none-any.whl#sha256=ab\" "
                      "data-requires-python=\"&quot;&gt;&lt;script&gt;&amp;\">six-1.0-py3-none-any.whl</a>"),
            page.npos)
      << page;
  EXPECT_EQ(read_index_page(page, kBase).value().at(0).requires_python, link.requires_python);
}

TEST(IndexPage, ProjectsAreSpelledAsIndexesSpellThem) {
  EXPECT_EQ(project_name("Zope.Interface__x"), "zope-interface-x");
}

TEST(Requirement, ABareVersionIsThatVersion) {
  EXPECT_EQ(requirement("six", "").value(), "six");
  EXPECT_EQ(requirement("six", "1.16.0").value(), "six==1.16.0");
  EXPECT_EQ(requirement("six", ">= 1, <2").value(), "six>=1,<2");
  EXPECT_EQ(requirement("six", "~=1.4").value(), "six~=1.4");
}

TEST(Requirement, NothingElseGetsThrough) {
  for (const char* name :
       {"", "six==1.0", "--index-url=x", "-r", "./six", "../six", "/tmp/x", "https://h/six.whl", "six @ https://h/x",
        "six[extra]", "six;python_version<'3'", "six\n", "sixé", "six.", ".six"})
    EXPECT_FALSE(requirement(name, "")) << name;
  for (const char* version : {"1 --pre", ">=", "1;x", "@ https://h", "1\n2", "==", "1,,2", "-1", "=1"})
    EXPECT_FALSE(requirement("six", version)) << version;
}

}  // namespace
}  // namespace cove::packages
