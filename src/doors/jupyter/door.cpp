#include "doors/jupyter/door.hpp"

#include <list>

#include "doors/jupyter/answers.hpp"

namespace cove::doors::jupyter {
namespace {

constexpr std::string_view kInSandbox = "/v1/sandboxes/{id}/jupyter";

// The same routes once more, for one sandbox.
std::vector<Route> in_sandbox(const std::vector<Route>& rows) {
  static std::list<std::string> patterns;  // routes borrow theirs
  std::vector<Route> all;
  for (auto row : rows) {
    row.options.scoped = false;  // the path names the sandbox, so a listener of another one must not serve it
    row.pattern = patterns.emplace_back(std::string(kInSandbox) + std::string(row.pattern));
    all.push_back(row);
  }
  return all;
}

std::vector<Route> all_routes() {
  auto rows = http::joined<Services>({spec_routes(), kernel_routes(), session_routes(), channel_routes()});
  const auto more = in_sandbox(rows);
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace

std::vector<Route> routes() {
  static const auto kRows = all_routes();
  return kRows;
}

void add_routes(http::Router& router, Services& services) {
  static const auto kRows = routes();
  http::add_routes<Services>(router, kRows, services, "jupyter");
  router.set_dialect("/api", in_our_form);
  router.set_dialect("/kernelspecs", in_our_form);
  router.set_dialect("/v1/sandboxes/{}/jupyter", in_our_form);
}

}  // namespace cove::doors::jupyter
