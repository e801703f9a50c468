#include "doors/workspace/efast_grant.hpp"

#include <gmock/gmock.h>

namespace cove::doors::workspace {
namespace {

TEST(EfastGrant, NamesAnAddressAndItsHeaders) {
  const auto grant = parse_grant(
      R"({"authrequest":["GET","https://objects.example/a?b=c","Authorization: AWS k:s=","Host: other.example","x-date: Mon, 13:00"],"name":"n.txt","size":7,"rev":"r"})");
  ASSERT_TRUE(grant) << grant.error().message;
  EXPECT_EQ(grant->url.text(), "https://objects.example/a?b=c");
  const outbound::Headers want{{"Authorization", "AWS k:s="}, {"x-date", "Mon, 13:00"}};
  EXPECT_EQ(grant->headers, want) << "the host is the address's";
  EXPECT_EQ(grant->name, "n.txt");
  EXPECT_EQ(grant->size, 7U);
  EXPECT_EQ(grant->rev, "r");
}

TEST(EfastGrant, OthersAreRefused) {
  for (const std::string_view answer :
       {"", "[]", "{}", R"({"authrequest":["GET","http://a.example/","A: b"]})",
        R"({"authrequest":["GET",1,"A: b","C: d"]})", R"({"authrequest":["GET","file:///etc/passwd","A: b","C: d"]})",
        R"({"authrequest":["GET","http://a.example/","nothing","C: d"]})"})
    EXPECT_FALSE(parse_grant(answer)) << answer;
}

}  // namespace
}  // namespace cove::doors::workspace
