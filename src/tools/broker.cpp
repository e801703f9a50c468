// How servers come and go. What becomes of calls is in calls.cpp.
#include "tools/broker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/sha256.hpp"
#include "outbound/url.hpp"
#include "tools/launch.hpp"
#include "tools/package_files.hpp"

namespace cove::tools {
namespace {

namespace json = boost::json;
using mcp::client::ServerConfig;

// Everything that was said of a tool when its server was registered.
std::string hash_of(const mcp::client::Tool& tool) {
  Sha256 sum;
  sum.add(tool.name);
  sum.add(std::string_view("\0", 1));
  sum.add(tool.description);
  sum.add(std::string_view("\0", 1));
  sum.add(json::serialize(tool.input_schema));
  if (tool.output_schema) sum.add(json::serialize(*tool.output_schema));
  return sum.hex();
}

bool says(const json::object& annotations, std::string_view name) {
  const auto* value = annotations.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

bool is_loopback(std::string_view host) {
  boost::system::error_code failed;
  const auto address = boost::asio::ip::make_address(std::string(host), failed);
  return failed ? host == "localhost" || host.ends_with(".localhost") : address.is_loopback();
}

Result<outbound::Reach> reach_of(const ServerConfig& config, const BrokerSettings& settings) {
  outbound::Reach reach;
  for (const auto& text : settings.allow) {
    COVE_TRY(auto place, outbound::parse_host_port(text));
    reach.allowed.push_back(std::move(place));
  }
  if (!settings.allow_loopback || config.kind == ServerConfig::Kind::stdio) return reach;
  if (const auto url = outbound::parse_url(config.url); url && is_loopback(url->host))
    reach.allowed.push_back({.host = url->host, .port = url->port});
  return reach;
}

std::vector<codegen::Tool> for_codegen(const std::vector<mcp::client::Tool>& tools) {
  std::vector<codegen::Tool> out;
  out.reserve(tools.size());
  for (const auto& tool : tools)
    out.push_back({.name = tool.name,
                   .description = tool.description,
                   .input_schema = tool.input_schema,
                   .output_schema = tool.output_schema});
  return out;
}

}  // namespace

Broker::Broker(boost::asio::any_io_executor executor, sandbox::Core& core, outbound::Client& http, Settings settings)
    : executor_(std::move(executor)), core_(core), http_(http), settings_(std::move(settings)), approvals_(executor_) {}

std::shared_ptr<Broker::Group> Broker::group_of(const std::string& sandbox_id) {
  auto& group = groups_[sandbox_id];
  if (!group) group = std::make_shared<Group>(executor_);
  return group;
}

std::shared_ptr<Broker::Server> Broker::server_of(const sandbox::Sandbox& sandbox, std::string_view name) const {
  const auto group = groups_.find(sandbox.row().id);
  if (group == groups_.end()) return nullptr;
  const auto found = group->second->servers.find(name);
  return found == group->second->servers.end() ? nullptr : found->second;
}

std::shared_ptr<Connection> Broker::connect_to(const std::shared_ptr<sandbox::Sandbox>& sandbox,
                                               const Principal& principal, const Definition& definition,
                                               bool every_variable) {
  const bool inside = definition.place == Place::inside;
  auto find = [this, weak = std::weak_ptr(sandbox), principal, inside, every_variable, config = definition.config,
               on_host = definition.place == Place::host ? definition.name : std::string(),
               network = definition.network_json]() -> Result<Connection::Way> {
    const auto settings = settings_();
    const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
      // What is in the environment of a process of the sandbox can be read there.
      if (inside) return std::nullopt;
      const bool may = every_variable || std::ranges::any_of(settings.variables, [&](const std::string& pattern) {
                         return matches(pattern, name);
                       });
      const char* value = may && !name.starts_with("COVE_") ? std::getenv(name.c_str()) : nullptr;
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
    auto substituted = mcp::client::substitute(config, lookup);
    if (!substituted) {
      auto why = substituted.error().message;
      if (inside) why += "; a server inside a sandbox gets no variables of this server: let it have place \"own\"";
      return fail(Errc::invalid, std::move(why));
    }
    COVE_TRY(auto reach, reach_of(*substituted, settings));
    mcp::client::Environment environment{
        .executor = executor_, .http = &http_, .reach = std::move(reach), .tenant = principal.tenant, .eras = eras_};
    environment.launch = inside ? launch_inside(weak) : launch_in_own_sandbox(core_, principal, network);
    if (!on_host.empty())
      environment.launch = settings.launch_on_host ? settings.launch_on_host(on_host) : mcp::client::Launch();
    environment.limits.result_bytes = settings.result_bytes;
    return Connection::Way{.environment = std::move(environment), .config = std::move(*substituted)};
  };
  return std::make_shared<Connection>(executor_, core_.tasks, std::move(find));
}

async::Task<Result<ServerView>> Broker::add(std::shared_ptr<sandbox::Sandbox> sandbox, Principal principal,
                                            Definition definition) {
  const auto group = group_of(sandbox->row().id);
  const auto name = definition.name;
  if (!group->servers.contains(name) && group->servers.size() >= settings_().servers)
    co_return fail(Errc::quota, fmt::format("the limit of {} tool servers in this sandbox is reached (tools.servers)",
                                            settings_().servers));
  const auto server = std::make_shared<Server>(Server{.definition = std::move(definition)});
  server->connection = connect_to(sandbox, principal, server->definition, core_.authority.operates(principal));
  COVE_CO_TRY(auto tools, co_await learn(server));
  const codegen::Server of_package{.name = name, .params = server->definition.params};
  COVE_CO_TRY(const auto package, codegen::generate(of_package, tools));
  server->modules = package.names();
  if (server->definition.writes) COVE_CO_CHECK(co_await write_package(sandbox, server->definition.path(), package));
  group->servers[name] = server;
  on_server_(sandbox);
  core_.registry.publish("tools_registered", *sandbox,
                         json::serialize(json::object{{"server", name}, {"tools", tools.size()}}));
  co_return find(*sandbox, name);  // it may have ended meanwhile
}

// Connects, and remembers what the tools are now.
async::Task<Result<std::vector<codegen::Tool>>> Broker::learn(std::shared_ptr<Server> server) {
  COVE_CO_TRY(const auto client, co_await Connection::get(server->connection));
  COVE_CO_TRY(const auto tools, co_await client->tools());
  for (const auto& tool : tools) {
    server->tools.push_back(tool.name);
    server->pinned.insert_or_assign(tool.name, hash_of(tool));
    server->repeatable.insert_or_assign(
        tool.name, says(tool.annotations, "readOnlyHint") || says(tool.annotations, "idempotentHint"));
  }
  server->checked = server->connection->version();
  co_return for_codegen(tools);
}

async::Task<Result<std::shared_ptr<Broker::Server>>> Broker::obtain(std::shared_ptr<sandbox::Sandbox> sandbox,
                                                                    std::string name) {
  if (auto there = server_of(*sandbox, name)) co_return there;
  const auto settings = settings_();
  const auto named = settings.named.find(name);
  if (named == settings.named.end()) co_return tl::unexpected<Error>(find(*sandbox, name).error());
  COVE_CO_TRY(auto definition, parse_named(name, named->second));
  const auto server = std::make_shared<Server>(Server{.definition = std::move(definition), .configured = true});
  auto& shared = shared_[{sandbox->tenant(), name}];
  server->connection = shared.lock();
  if (!server->connection) {
    // The operator's own words: every variable may stand in them.
    server->connection = connect_to(sandbox, Principal{.tenant = sandbox->tenant()}, server->definition, true);
    shared = server->connection;
  }
  COVE_CO_TRY(const auto tools, co_await learn(server));
  COVE_CO_TRY(const auto package, codegen::generate({.name = name, .params = server->definition.params}, tools));
  server->modules = package.names();
  group_of(sandbox->row().id)->servers.emplace(name, server);
  on_server_(sandbox);
  co_return server;
}

async::Task<Result<ServerView>> Broker::add_named(std::shared_ptr<sandbox::Sandbox> sandbox, std::string name) {
  COVE_CO_TRY(const auto server, co_await obtain(sandbox, name));
  COVE_CO_TRY(const auto tools, co_await learn(std::make_shared<Server>(Server{.connection = server->connection})));
  COVE_CO_TRY(const auto package, codegen::generate({.name = name, .params = server->definition.params}, tools));
  COVE_CO_CHECK(co_await write_package(sandbox, server->definition.path(), package));
  server->definition.writes = true;
  co_return find(*sandbox, name);  // it may have ended meanwhile
}

Result<> Broker::remove(const sandbox::Sandbox& sandbox, std::string_view name) {
  COVE_CHECK(find(sandbox, name));
  const auto group = group_of(sandbox.row().id);
  group->servers.erase(group->servers.find(name));
  core_.registry.publish("tools_removed", sandbox, json::serialize(json::object{{"server", name}}));
  return {};
}

void Broker::reset(const sandbox::Sandbox& sandbox) {
  for (const auto& [name, server] : group_of(sandbox.row().id)->servers) server->connection->close();
  approvals_.forget(sandbox.row().id);
}

Result<ServerView> Broker::find(const sandbox::Sandbox& sandbox, std::string_view name) const {
  for (auto& view : list(sandbox)) {
    if (view.definition->name == name) return view;
  }
  std::string there;
  for (const auto& view : list(sandbox)) there += (there.empty() ? "" : ", ") + view.definition->name;
  return fail(Errc::not_found, fmt::format("no tool server {} is registered in this sandbox; there {}",
                                           json::serialize(json::value(name.substr(0, 100))),
                                           there.empty() ? "is none" : "are: " + there));
}

std::vector<ServerView> Broker::list(const sandbox::Sandbox& sandbox) const {
  std::vector<ServerView> out;
  for (const auto& [name, text] : settings_().named) {
    if (server_of(sandbox, name) != nullptr) continue;
    if (auto definition = parse_named(name, text))
      out.push_back({.definition = std::make_shared<Definition>(std::move(*definition)), .configured = true});
  }
  const auto group = groups_.find(sandbox.row().id);
  if (group == groups_.end()) return out;
  for (const auto& [name, server] : group->second->servers)
    out.push_back({.definition = std::shared_ptr<const Definition>(server, &server->definition),
                   .tools = server->tools,
                   .modules = server->modules,
                   .connected = server->connection->open(),
                   .configured = server->configured});
  return out;
}

std::uint32_t Broker::running() const {
  std::uint32_t sum = 0;
  for (const auto& [id, group] : groups_) sum += group->running;
  return sum;
}

std::size_t Broker::servers() const {
  std::size_t sum = 0;
  for (const auto& [id, group] : groups_) sum += group->servers.size();
  return sum;
}

void Broker::forget(const std::string& sandbox_id) {
  groups_.erase(sandbox_id);
  approvals_.forget(sandbox_id);
}

// What was said of a tool when it was registered still holds: otherwise nobody has agreed to what it is now.
async::Task<Result<>> Broker::check_pins(std::shared_ptr<Server> server, std::shared_ptr<mcp::client::Client> client,
                                         std::string tool) {
  const auto version = server->connection->version();
  if (server->checked != version) {
    COVE_CO_TRY(const auto tools, co_await client->tools());
    server->changed.clear();
    for (const auto& now : tools) {
      const auto pinned = server->pinned.find(now.name);
      if (pinned != server->pinned.end() && pinned->second != hash_of(now)) server->changed.insert(now.name);
    }
    server->checked = version;
  }
  if (server->changed.contains(tool))
    co_return fail(Errc::denied, fmt::format("the definition of tool {} has changed since its server was registered: "
                                             "look at it and register the server again",
                                             json::serialize(json::value(tool))));
  co_return Result<>();
}

}  // namespace cove::tools
