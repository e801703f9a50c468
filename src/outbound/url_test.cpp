#include "outbound/url.hpp"

#include <gtest/gtest.h>

#include <array>

namespace cove::outbound {
namespace {

struct Row {
  const char* name;
  std::string_view given;
  std::string_view want;  // "" = refused
};
class ParseUrl : public testing::TestWithParam<Row> {};

TEST_P(ParseUrl, IsCanonicalOrRefused) {
  const auto url = parse_url(GetParam().given);
  EXPECT_EQ(url ? url->text() : "", GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, ParseUrl,
                         testing::ValuesIn(std::to_array<Row>({
                             {"Plain", "http://example.org/a?b=c", "http://example.org/a?b=c"},
                             {"NoPath", "https://example.org", "https://example.org/"},
                             {"CaseAndLastDot", "HTTP://Example.ORG./A", "http://example.org/A"},
                             {"DefaultPort", "https://example.org:443/", "https://example.org/"},
                             {"OtherPort", "https://example.org:8443/", "https://example.org:8443/"},
                             {"FragmentGoes", "http://example.org/a#b", "http://example.org/a"},
                             {"Address4", "http://10.0.0.1/", "http://10.0.0.1/"},
                             {"Address6", "http://[2001:DB8::1]:81/", "http://[2001:db8::1]:81/"},
                             {"OtherScheme", "gopher://example.org/", ""},
                             {"File", "file:///etc/passwd", ""},
                             {"NoScheme", "example.org/a", ""},
                             {"User", "http://user@example.org/", ""},
                             {"UserThatLooksLikeAHost", "http://ok.test@evil.test/", ""},
                             {"NoHost", "http:///a", ""},
                             {"ShortAddress", "http://127.1/", ""},
                             {"HexAddress", "http://0x7f000001/", ""},
                             {"NumberAddress", "http://2130706433/", ""},
                             {"OctalAddress", "http://0177.0.0.1/", ""},
                             {"Zero", "http://0/", ""},
                             {"AddressThatGoesOn", "http://10.0.0.1.evil.test:444/", ""},
                             {"AddressThenAnother", "http://127.0.0.1http://other.test/x", ""},
                             {"AddressThenAStar", "http://127.0.0.1*", ""},
                             {"PortZero", "http://example.org:0/", ""},
                             {"PortTooLarge", "http://example.org:65536/", ""},
                             {"EncodedHost", "http://ok.test%00.evil.test/", ""},
                             {"Blank", "http://example.org/a b", ""},
                             {"LineBreak", "http://example.org/\r\nHost: x", ""},
                             {"EmptyLabel", "http://a..b/", ""},
                             {"NotAscii", "http://ex\xc3\xa4mple.org/", ""},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ResolveUrl, TakesWhatABrowserWouldTake) {
  const auto base = parse_url("https://index.test/simple/six/").value();
  EXPECT_EQ(resolve_url(base, "../../files/six.whl#sha256=ab").value().text(), "https://index.test/files/six.whl");
  EXPECT_EQ(resolve_url(base, "/x").value().text(), "https://index.test/x");
  EXPECT_EQ(resolve_url(base, "//other.test/x").value().text(), "https://other.test/x");
  EXPECT_EQ(resolve_url(base, "http://127.0.0.1/").value().text(), "http://127.0.0.1/");
  EXPECT_FALSE(resolve_url(base, "javascript:alert(1)"));
  EXPECT_FALSE(resolve_url(base, "http://127.1/"));
}

}  // namespace
}  // namespace cove::outbound
