#include "doors/workspace/efast_store.hpp"

#include <gtest/gtest.h>

namespace cove::doors::workspace {
namespace {

config::Workspace operators() {
  config::Workspace config;
  config.efast_url = "http://store.internal:9123";
  config.efast_token = "secret";
  config.efast_places = {"objects.internal:9000"};
  return config;
}

bool reaches(const EfastStore& store, std::string_view url) {
  return store.reach.lists(outbound::parse_url(url).value());
}

TEST(EfastStore, TheOperatorsOwnGetsItsTokenAndMayLeadToInsidePlaces) {
  for (const auto* url : {"", "http://store.internal:9123", "http://store.internal:9123//"}) {
    const auto store = efast_store(url, "", operators());
    ASSERT_TRUE(store) << url;
    EXPECT_EQ(store->url.text(), "http://store.internal:9123/api/efast/v1/file/osdownload/");
    EXPECT_EQ(store->token, "secret");
    EXPECT_TRUE(reaches(*store, "http://store.internal:9123/object"));
    EXPECT_TRUE(reaches(*store, "http://objects.internal:9000/object"));
    EXPECT_FALSE(reaches(*store, "http://objects.internal:9001/object"));
  }
  EXPECT_EQ(efast_store("", "mine", operators())->token, "mine");
}

TEST(EfastStore, OneThatACallerNamesLeadsToNoInsidePlaceAndGetsNoToken) {
  for (const auto* url : {"https://store.example.org", "http://store.internal:9123/elsewhere",
                          "https://store.internal:9123", "http://store.internal", "http://objects.internal:9000"}) {
    const auto store = efast_store(url, "", operators());
    ASSERT_TRUE(store) << url;
    EXPECT_EQ(store->token, "") << url;
    EXPECT_TRUE(store->reach.allowed.empty()) << url;
  }
}

TEST(EfastStore, HasNoQueryAndNoFragment) {
  for (const auto* url : {"http://store.internal:9123/?x=", "http://store.internal:9123/#", "ftp://store.example.org"})
    EXPECT_EQ(efast_store(url, "", operators()).error().code, Errc::invalid) << url;
}

}  // namespace
}  // namespace cove::doors::workspace
