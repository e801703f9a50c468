#include "doors/mcp/suggestions.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;

std::string values(std::vector<std::string> all, std::string_view typed) {
  return json::serialize(completion(std::move(all), typed).at("completion").at("values"));
}

TEST(Completion, ThoseThatBeginSoComeFirst) {
  EXPECT_EQ(values({"javascript", "typescript", "python", "Pypy"}, "py"), R"(["python","Pypy"])");
  EXPECT_EQ(values({"typescript", "perl", "php"}, "p"), R"(["perl","php","typescript"])");
  EXPECT_EQ(values({"javascript"}, "jvs"), R"(["javascript"])");
  EXPECT_EQ(values({"javascript"}, "sj"), "[]");
  EXPECT_EQ(values({"b", "a"}, ""), R"(["b","a"])");
}

TEST(Completion, HasAHundredAtTheMostAndSaysSo) {
  std::vector<std::string> all;
  for (int i = 0; i < 150; ++i) all.push_back(fmt::format("a{}", i));
  const auto found = completion(all, "a").at("completion").as_object();
  EXPECT_EQ(found.at("values").as_array().size(), 100U);
  EXPECT_EQ(found.at("total").to_number<int>(), 150);
  EXPECT_EQ(found.at("hasMore"), true);
}

}  // namespace
}  // namespace cove::doors::mcp
