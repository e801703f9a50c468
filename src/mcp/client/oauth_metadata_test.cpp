#include "mcp/client/oauth_metadata.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mcp/client/client_assertion.hpp"

namespace cove::mcp::client {
namespace {

using testing::ElementsAre;

outbound::Url url(std::string_view text) {
  return *outbound::parse_url(text);
}

TEST(OAuthChallenge, IsReadInAnyOrderAndSpelling) {
  const auto said = read_challenge(
      R"(Bearer error="insufficient_scope", scope="a b", resource_metadata="https://e.example/x?y=\"z", Basic realm=r)");
  EXPECT_EQ(said.error, "insufficient_scope");
  EXPECT_EQ(said.scope, "a b");
  EXPECT_EQ(said.resource_metadata, "https://e.example/x?y=\"z");
  EXPECT_EQ(read_challenge("Bearer scope=one").scope, "one");
  EXPECT_EQ(read_challenge("=\"").scope, "");
}

TEST(OAuthPlaces, AreTheOnesTheStandardsName) {
  EXPECT_THAT(resource_places(url("https://e.example/a/mcp")),
              ElementsAre("https://e.example/.well-known/oauth-protected-resource/a/mcp",
                          "https://e.example/.well-known/oauth-protected-resource"));
  EXPECT_THAT(issuer_places(url("https://e.example/t1")),
              ElementsAre("https://e.example/.well-known/oauth-authorization-server/t1",
                          "https://e.example/.well-known/openid-configuration/t1",
                          "https://e.example/t1/.well-known/openid-configuration"));
  EXPECT_EQ(issuer_places(url("https://e.example")).size(), 2U);
}

TEST(OAuthResource, MustBeTheServerThatWasAsked) {
  const auto check = [](const char* resource, const char* server) {
    return read_resource({{"resource", resource}}, url(server)).has_value();
  };
  EXPECT_TRUE(check("https://e.example/mcp", "https://e.example/mcp"));
  EXPECT_TRUE(check("https://e.example", "https://e.example/mcp"));
  EXPECT_TRUE(check("https://e.example/a", "https://e.example/a/mcp"));
  EXPECT_FALSE(check("https://e.example/a", "https://e.example/ab"));
  EXPECT_FALSE(check("https://evil.example/mcp", "https://e.example/mcp"));
  EXPECT_FALSE(check("http://e.example/mcp", "https://e.example/mcp"));
}

TEST(OAuthForm, IsWrittenAndReadAlike) {
  const OAuthForm form{{"a b", "c&d=e"}, {"f", "\xC3\xA9"}};
  EXPECT_EQ(form_text(form), "a%20b=c%26d%3De&f=%C3%A9");
  EXPECT_EQ(query_of("http://e.example/?" + form_text(form) + "#x=y"), form);
}

TEST(Pkce, ChallengeIsThatOfTheStandard) {
  EXPECT_EQ(pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
}

TEST(ClientAssertion, NamesTheKeyThatIsNone) {
  const auto made = client_assertion(Credentials{.client_id = "a", .private_key = "nothing"}, "https://e.example");
  EXPECT_EQ(made.error().message, "auth.private_key is no private key in PEM");
}

}  // namespace
}  // namespace cove::mcp::client
