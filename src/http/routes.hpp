#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "http/router.hpp"

namespace cove::http {

// One route as data, so that routes can be listed without the services that their handlers use.
template <class Services>
struct RouteRow {
  verb method = verb::unknown;
  std::string_view pattern;
  async::Task<> (*handler)(Services&, Exchange&) = nullptr;
  RouteOptions options = {};
};

// A table of routes, which lives as long as the program.
template <class Services>
using RouteRows = std::span<const RouteRow<Services>>;

// Tables one after the other.
template <class Services>
std::vector<RouteRow<Services>> joined(std::initializer_list<RouteRows<Services>> tables) {
  std::vector<RouteRow<Services>> all;
  for (const auto& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

// The routes of one door (Principal::door; lives as long as the program). `services` must outlive the router.
template <class Services>
void add_routes(Router& router, std::type_identity_t<RouteRows<Services>> rows, Services& services,
                std::string_view door) {
  for (const auto& row : rows) {
    auto handler = [handler = row.handler, &services](Exchange& exchange) { return handler(services, exchange); };
    auto options = row.options;
    options.door = door;
    router.add(row.method, std::string(row.pattern), std::move(handler), options);
  }
}

// A route as it is listed.
struct RouteInfo {
  verb method = verb::unknown;
  std::string_view pattern;
  Access access = Access::key;
};

template <class Services>
void list_routes(std::vector<RouteInfo>& list, const std::vector<RouteRow<Services>>& rows) {
  for (const auto& row : rows)
    list.push_back({.method = row.method, .pattern = row.pattern, .access = row.options.access});
}

}  // namespace cove::http
