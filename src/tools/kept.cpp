// What is stored of servers, and how a later server process has them again.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "json/fields.hpp"
#include "store/secret.hpp"
#include "tools/broker.hpp"

namespace cove::tools {
namespace {

namespace json = boost::json;

std::string owner_of(std::string_view sandbox, std::string_view server) {
  return fmt::format("{}/{}", sandbox, server);
}

// As parse_definition takes it.
json::object body_of(const Definition& definition) {
  auto body = definition.params;
  json::object policy;
  if (definition.otherwise) policy["default"] = name_of(*definition.otherwise);
  for (const auto& [pattern, verdict] : definition.verdicts) {
    auto& list = policy[name_of(verdict)];
    if (!list.is_array()) list.emplace_array();
    list.get_array().emplace_back(pattern);
  }
  body["policy"] = std::move(policy);
  body["place"] = name_of(definition.place);
  if (!definition.network_json.empty()) body["network"] = json::parse(definition.network_json);
  body["directory"] = definition.directory;
  return body;
}

constexpr std::size_t kParts = 4;  // of a tool: its name, its module, the hash of its definition, may it be repeated

bool is_tool(const json::value& value) {
  if (!value.is_array() || value.get_array().size() != kParts) return false;
  const auto& parts = value.get_array();
  return parts[0].is_string() && parts[1].is_string() && parts[2].is_string() && parts[3].is_bool();
}

}  // namespace

Result<> Broker::keep(const sandbox::Sandbox& sandbox, const Server& server) {
  if (sandbox.purpose() != sandbox::Purpose::named) return {};  // it ends with this server process
  const auto& definition = server.definition;
  json::array tools;
  for (std::size_t i = 0; i < server.tools.size(); ++i) {
    const auto& name = server.tools[i];
    tools.push_back(json::array{name, server.modules[i], server.pinned.at(name), server.repeatable.at(name)});
  }
  json::object kept{
      {"tenant", server.principal.tenant}, {"key", server.principal.key_id}, {"writes", definition.writes}};
  kept["tools"] = std::move(tools);
  if (server.configured) {
    kept["configured"] = server.configured_hash;
  } else {
    kept["package"] = definition.package;
    kept["definition"] = body_of(definition);
  }
  auto& store = core_.registry.store();
  const auto& id = sandbox.row().id;
  COVE_TRY(auto sealed, store.secrets().seal(owner_of(id, definition.name), json::serialize(kept)));
  return store.tool_servers().put({.sandbox = id, .name = definition.name, .sealed = std::move(sealed)});
}

Result<std::shared_ptr<Broker::Server>> Broker::read_kept(const std::shared_ptr<sandbox::Sandbox>& sandbox,
                                                          const store::ToolServerRow& row) {
  COVE_TRY(const auto text, core_.registry.store().secrets().open(owner_of(row.sandbox, row.name), row.sealed));
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  if (failed || !value.is_object()) return fail(Errc::io, "what is stored of it is no object");
  auto& kept = value.get_object();
  const auto server = std::make_shared<Server>();
  server->principal = {.tenant = cove::json::text_of(kept, "tenant"), .key_id = cove::json::text_of(kept, "key")};
  server->configured_hash = cove::json::text_of(kept, "configured");
  server->configured = !server->configured_hash.empty();
  if (server->configured) {
    const auto named = settings_().named;
    const auto found = named.find(row.name);
    // Another one, or none, by now: the operator has the last word on it.
    if (found == named.end() || store::sha256_hex(found->second) != server->configured_hash)
      return std::shared_ptr<Server>();
    COVE_TRY(server->definition, parse_named(row.name, found->second));
    server->connection = named_connection(sandbox, server->definition);
  } else {
    COVE_TRY(const auto* definition, cove::json::object_field(kept, "definition"));
    if (definition == nullptr) return fail(Errc::io, "what is stored of it has no definition");
    COVE_TRY(server->definition, parse_definition(row.name, *definition));
    server->definition.package = cove::json::text_of(kept, "package");
    // The key may have lost its rights meanwhile.
    server->connection =
        connect_to(sandbox, server->principal, server->definition, core_.authority.operates(server->principal));
  }
  COVE_TRY(const auto writes, cove::json::bool_field(kept, "writes"));
  server->definition.writes = writes.value_or(false);
  const auto* tools = kept.if_contains("tools");
  if (tools == nullptr || !tools->is_array() || !std::ranges::all_of(tools->get_array(), is_tool))
    return fail(Errc::io, "what is stored of it has no tools");
  for (const auto& tool : tools->get_array()) {
    const auto& parts = tool.get_array();
    const std::string name(parts[0].get_string());
    server->tools.push_back(name);
    server->modules.emplace_back(parts[1].get_string());
    server->pinned.insert_or_assign(name, std::string(parts[2].get_string()));
    server->repeatable.insert_or_assign(name, parts[3].get_bool());
  }
  return server;
}

void Broker::restore(const std::shared_ptr<sandbox::Sandbox>& sandbox) {
  auto& store = core_.registry.store();
  const auto& id = sandbox->row().id;
  restored_[id] = boot_time();
  const auto lost = [&](std::string_view name, const Error& error) {
    sandbox->note("tool server lost", fmt::format("server={} reason=\"{}\"", name, error.message));
  };
  const auto supervised = store.sandboxes().supervised(id);
  if (!supervised) lost("*", supervised.error());
  // Who cannot tell whether somebody is asked goes on as if somebody were.
  if (supervised.value_or(true)) approvals_.supervise(id);
  const auto rows = store.tool_servers().of(id);
  if (!rows) return lost("*", rows.error());
  for (const auto& row : *rows) {
    const auto server = read_kept(sandbox, row);
    if (server && *server != nullptr) {
      group_of(id)->servers[row.name] = *server;
      continue;
    }
    if (!server) lost(row.name, server.error());
    [[maybe_unused]] const auto erased = store.tool_servers().erase(id, row.name);
  }
  if (const auto group = groups_.find(id); group != groups_.end() && !group->second->servers.empty())
    on_server_(sandbox);
}

std::chrono::milliseconds Broker::restored_at(const std::string& sandbox_id) const {
  const auto found = restored_.find(sandbox_id);
  return found == restored_.end() ? std::chrono::milliseconds(0) : found->second;
}

void Broker::remember_supervised(const std::string& id, bool supervised) {
  // One that ends with this server process has no row.
  const auto written = core_.registry.store().sandboxes().set_supervised(id, supervised);
  if (written || written.error().code == Errc::not_found) return;
  if (const auto sandbox = core_.registry.by_id(id))
    sandbox->note("supervision not stored", fmt::format("reason=\"{}\"", written.error().message));
}

}  // namespace cove::tools
