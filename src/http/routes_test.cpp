#include "http/routes.hpp"

#include <gtest/gtest.h>

#include <array>

#include "http/exchange.hpp"

namespace cove::http {
namespace {

struct Nobody {};

async::Task<> nothing(Nobody&, Exchange&) {
  co_return;
}

constexpr auto kOpen = std::to_array<RouteRow<Nobody>>({{verb::get, "/healthz", nothing, {.access = Access::open}}});
constexpr auto kRows = std::to_array<RouteRow<Nobody>>({
    {verb::get, "/v1/sandboxes", nothing},
    {verb::put, "/v1/sandboxes/{id}", nothing, {.body_limit = 7}},
});

TEST(RouteRows, AreListedInOrderWithoutServices) {
  std::vector<RouteInfo> list;
  list_routes(list, joined<Nobody>({kOpen, kRows}));
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].method, verb::get);
  EXPECT_EQ(list[0].pattern, "/healthz");
  EXPECT_EQ(list[0].access, Access::open);
  EXPECT_EQ(list[2].method, verb::put);
  EXPECT_EQ(list[2].pattern, "/v1/sandboxes/{id}");
  EXPECT_EQ(list[2].access, Access::key);
}

TEST(RouteRows, AreFoundWithTheirOptionsOnceAdded) {
  Nobody nobody;
  Router router;
  add_routes(router, kRows, nobody, "test");
  const auto result = router.find(verb::put, "/v1/sandboxes/demo");
  const auto* found = std::get_if<Router::Found>(&result);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->route->pattern, "/v1/sandboxes/{id}");
  EXPECT_EQ(found->route->options.body_limit, 7U);
  EXPECT_TRUE(found->route->handler);
  EXPECT_TRUE(std::holds_alternative<Router::NotFound>(router.find(verb::get, "/healthz")));
}

}  // namespace
}  // namespace cove::http
