#include "cli/admin/serve_command.hpp"

#include <boost/json.hpp>
#include <memory>

#include "cli/console.hpp"
#include "cli/fixtures_program.hpp"
#include "host/state_dir.hpp"
#include "server/route_table.hpp"
#include "server/supervisor.hpp"

namespace cove::cli {

int serve_command(const ConfigFlags& flags) {
  const config::LoadInput input{.file = flags.file(),
                                .default_state_dir = host::default_state_dir(),
                                .environment = config::cove_environment(),
                                .flags = flags.given()};
  const auto config = config::load(input);
  if (!config) {
    tell("{}", config.error().message);
    return 2;
  }
  if (const auto used = use_fixtures_program(*config); !used) {
    tell("{}", used.error().message);
    return 1;
  }
  return server::run_supervisor(*config, input);
}

int routes_command(bool json) {
  boost::json::array table;
  std::string lines;
  for (const auto& route : server::route_table()) {
    const auto* access = route.access == http::Access::open ? "open" : "key";
    const std::string_view method = boost::beast::http::to_string(route.method);
    table.push_back({{"method", method}, {"pattern", route.pattern}, {"access", access}});
    lines += fmt::format("{:7} {:48} {}\n", method, route.pattern, access);
  }
  if (!lines.empty()) lines.pop_back();
  const auto put = put_line(json ? boost::json::serialize(table) : lines);
  return put ? 0 : 1;
}

void add_serve_command(App& app, Commands& commands) {
  auto* command = app.add_subcommand("serve", "Run a server that offers sandboxes over HTTP");
  const auto flags = std::make_shared<ConfigFlags>();
  flags->describe(*command);
  commands.push_back({command, [flags](const AfterDashes&) { return serve_command(*flags); }});
}

void add_routes_command(App& app, Commands& commands) {
  auto* command = app.add_subcommand("routes", "List every HTTP route of the server");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print a JSON array instead of a table");
  commands.push_back({command, [json](const AfterDashes&) { return routes_command(*json); }});
}

}  // namespace cove::cli
