#include "cove/serve_command.hpp"

#include <boost/json.hpp>

#include "cove/console.hpp"
#include "doors/execute/door.hpp"
#include "doors/mcp/door.hpp"
#include "doors/operator/door.hpp"
#include "doors/sandboxes/door.hpp"
#include "doors/workspace/door.hpp"
#include "keeper/host_root.hpp"
#include "server/supervisor.hpp"

namespace cove::cli {

int serve_command(const ConfigFlags& flags) {
  const config::LoadInput input{.file = flags.file(),
                                .default_state_dir = keeper::default_state_dir(),
                                .environment = config::cove_environment(),
                                .flags = flags.given()};
  const auto config = config::load(input);
  if (!config) {
    tell("{}", config.error().message);
    return 2;
  }
  return server::run_supervisor(*config, input);
}

int routes_command(bool json) {
  http::Router router;
  doors::sandboxes::add_routes(router, nullptr);
  doors::execute::add_routes(router, nullptr);
  doors::workspace::add_routes(router, nullptr);
  doors::mcp::add_routes(router, nullptr);
  doors::operators::add_routes(router, nullptr);
  boost::json::array table;
  std::string lines;
  for (const auto& route : router.routes()) {
    const auto* access = route.access == http::Access::open ? "open" : "key";
    table.push_back({{"method", route.method}, {"pattern", route.pattern}, {"access", access}});
    lines += fmt::format("{:7} {:48} {}\n", route.method, route.pattern, access);
  }
  if (!lines.empty()) lines.pop_back();
  const auto put = put_line(json ? boost::json::serialize(table) : lines);
  return put ? 0 : 1;
}

}  // namespace cove::cli
