#include "server/route_table.hpp"

#include "doors/execute/door.hpp"
#include "doors/jupyter/door.hpp"
#include "doors/operator/door.hpp"
#include "doors/resources/door.hpp"
#include "doors/sandboxes/door.hpp"
#include "doors/workspace/door.hpp"
#include "mcp/http/routes.hpp"

namespace cove::server {

std::vector<http::RouteInfo> route_table() {
  std::vector<http::RouteInfo> list;
  http::list_routes(list, doors::sandboxes::routes());
  http::list_routes(list, doors::execute::routes());
  http::list_routes(list, doors::jupyter::routes());
  http::list_routes(list, doors::workspace::routes());
  http::list_routes(list, doors::resources::routes());
  http::list_routes(list, mcp_http::routes());
  http::list_routes(list, doors::operators::routes(config::MetricsAccess::key));
  return list;
}

}  // namespace cove::server
