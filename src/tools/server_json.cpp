#include "tools/server_json.hpp"

#include "tools/codegen/package.hpp"

namespace cove::tools {
namespace {

namespace json = boost::json;

// "lib/tools" as Python imports it.
std::string dotted(std::string path) {
  std::ranges::replace(path, '/', '.');
  return path;
}

}  // namespace

json::object to_json(const ServerView& view) {
  const auto& definition = *view.definition;
  json::array tools;
  for (std::size_t i = 0; i < view.tools.size(); ++i) {
    const auto verdict = definition.verdict_on(view.tools[i]);
    json::object tool{{"name", view.tools[i]}, {"module", view.modules[i]}};
    if (verdict) tool["policy"] = name_of(*verdict);
    tools.emplace_back(std::move(tool));
  }
  json::object out{{"name", definition.name},
                   {"params", codegen::shown_params(definition.params)},
                   {"package", definition.writes ? json::value(dotted(definition.path())) : json::value()},
                   {"connected", view.connected},
                   {"tools", std::move(tools)}};
  if (definition.config.kind == mcp::client::ServerConfig::Kind::stdio) out["place"] = name_of(definition.place);
  if (definition.otherwise) out["policy"] = name_of(*definition.otherwise);
  return out;
}

json::object to_json(const ApprovalRequest& request) {
  return {{"id", request.id},
          {"server", request.server},
          {"tool", request.tool},
          {"arguments", request.arguments},
          {"kernel", request.kernel.empty() ? json::value() : json::value(request.kernel)},
          {"createdAt", request.created_unix_ms}};
}

}  // namespace cove::tools
