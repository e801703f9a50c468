// What the conformance suite wants of a client, scenario by scenario. The server's address and what is needed beside
// come from the suite.
#include <boost/json.hpp>
#include <cstdlib>
#include <iostream>

#include "json/fields.hpp"
#include "mcp_client.hpp"
#include "outbound/url.hpp"

namespace cove::test {
namespace {

namespace json = boost::json;
using async::Task;
using namespace mcp::client;

json::object context() {
  const auto* text = std::getenv("MCP_CONFORMANCE_CONTEXT");
  boost::system::error_code wrong;
  const auto value = json::parse(text == nullptr ? "{}" : text, wrong);
  return wrong || !value.is_object() ? json::object() : value.as_object();
}

// Values that fit a tool's schema.
json::value sample(const json::object& schema) {
  const auto type = cove::json::text_of(schema, "type");
  if (type == "number" || type == "integer") return 5;
  if (type == "boolean") return true;
  if (type == "array") return json::array();
  if (type == "object") return json::object();
  return "x";
}

json::object samples(const json::object& schema) {
  json::object out;
  const auto* required = schema.if_contains("required");
  const auto* properties = schema.if_contains("properties");
  if (required == nullptr || properties == nullptr || !required->is_array() || !properties->is_object()) return out;
  for (const auto& name : required->as_array()) {
    const auto* property = properties->as_object().if_contains(name.as_string());
    out[name.as_string()] =
        property != nullptr && property->is_object() ? sample(property->as_object()) : json::value("x");
  }
  return out;
}

// What a form has for defaults.
Task<mcp::Or<>> fill_in(json::object params) {
  json::object content;
  const auto* schema = params.if_contains("requestedSchema");
  if (schema != nullptr && schema->is_object() && schema->as_object().contains("properties")) {
    for (const auto& [name, property] : schema->as_object().at("properties").as_object()) {
      const auto* usual = property.as_object().if_contains("default");
      content[name] = usual != nullptr ? *usual : sample(property.as_object());
    }
  }
  co_return json::object{{"action", "accept"}, {"content", std::move(content)}};
}

Task<mcp::Or<>> complete(json::object) {
  co_return json::object{{"role", "assistant"}, {"model", "none"}, {"content", {{"type", "text"}, {"text", "x"}}}};
}

// A consent page that consents at once: the address it leads to.
Task<Result<std::string>> consent(outbound::Client& http, outbound::Reach reach, std::string address) {
  auto url = outbound::parse_url(address);
  if (!url) co_return tl::unexpected<Error>(url.error());
  outbound::Request request{.url = std::move(*url),
                            .until = std::chrono::steady_clock::now() + std::chrono::seconds(10)};
  request.reach = std::move(reach);
  auto answer = co_await http.send(std::move(request));
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  co_return std::string(answer->head.header("Location"));
}

// Any port of this machine: an authorization server of the suite has one of its own.
outbound::Reach everywhere_here() {
  outbound::Reach out;
  for (std::uint32_t port = 1; port < 65536; ++port) {
    out.allowed.push_back({.host = "localhost", .port = static_cast<std::uint16_t>(port)});
    out.allowed.push_back({.host = "127.0.0.1", .port = static_cast<std::uint16_t>(port)});
  }
  return out;
}

bool told(const Result<CallResult>& result, std::string_view tool) {
  if (result && !result->fault) return true;
  std::cerr << tool << ": " << (result ? result->fault->message : result.error().message) << '\n';
  return false;
}

// Calls every tool that the server lists and the scenario does not call otherwise.
Task<bool> call_all(Client& client) {
  const auto tools = co_await client.tools();
  if (!tools) {
    std::cerr << "tools: " << tools.error().message << '\n';
    co_return false;
  }
  bool good = true;
  for (const auto& tool : *tools) {
    auto arguments = samples(tool.input_schema);
    CallOptions options;
    const auto result = co_await client.call(tool.name, std::move(arguments), std::move(options));
    good = told(result, tool.name) && good;
  }
  co_return good;
}

Task<bool> call_listed(Client& client, json::array calls) {
  bool good = true;
  for (auto& call : calls) {
    const auto name = std::string(call.at("name").as_string());
    auto arguments = call.at("arguments").as_object();
    CallOptions options;
    const auto result = co_await client.call(name, std::move(arguments), std::move(options));
    good = told(result, name) && good;
  }
  co_return good;
}

// Everything that has a name of its own in a header.
Task<bool> ask_everything(Client& client) {
  bool good = co_await call_all(client);
  const auto ask = [&client](std::string method, json::object params) {
    return client.request(std::move(method), std::move(params), {});
  };
  const auto resources = co_await ask("resources/list", json::object());
  if (resources && *resources) {
    for (const auto& one : (**resources).at("resources").as_array()) {
      const auto read = co_await ask("resources/read", json::object{{"uri", one.at("uri")}});
      good = good && read.has_value();
    }
  }
  const auto prompts = co_await ask("prompts/list", json::object());
  if (prompts && *prompts) {
    for (const auto& one : (**prompts).at("prompts").as_array()) {
      const auto read = co_await ask("prompts/get", json::object{{"name", one.at("name")}});
      good = good && read.has_value();
    }
  }
  co_return good;
}

// Sends a tool's schema back as it was received.
Task<bool> echo_schema(Client& client) {
  const auto tools = co_await client.tools();
  if (!tools) co_return false;
  json::object schema;
  for (const auto& tool : *tools) {
    if (tool.name != "json_schema_echo") schema = tool.input_schema;
  }
  json::object arguments{{"schema", std::move(schema)}};
  CallOptions options;
  const auto result = co_await client.call("json_schema_echo", std::move(arguments), std::move(options));
  co_return told(result, "json_schema_echo");
}

}  // namespace

Task<> run_scenario(const Place& place, std::string name, std::string url, int& status) {
  const auto given = context();
  auto environment = place.environment();
  environment.reach = everywhere_here();
  environment.handlers.elicitation = fill_in;
  environment.handlers.sampling = complete;
  environment.handlers.roots = {{{"uri", "file:///tmp"}}};
  environment.redirect_uri = "http://localhost:3000/callback";
  environment.client_metadata_url = "https://conformance-test.local/client-metadata.json";
  environment.log = [](std::string_view sentence) { std::cerr << sentence << '\n'; };
  auto* http = environment.http;
  if (name.find("client-credentials") == std::string::npos) {
    environment.authorize = [http, reach = environment.reach](std::string address) {
      return consent(*http, reach, std::move(address));
    };
  }
  ServerConfig config{.kind = ServerConfig::Kind::automatic, .url = std::move(url)};
  config.timeout = config.connect_timeout = std::chrono::seconds(20);
  if (given.contains("client_id")) {
    Credentials credentials;
    credentials.client_id = cove::json::text_of(given, "client_id");
    credentials.client_secret = cove::json::text_of(given, "client_secret");
    credentials.private_key = cove::json::text_of(given, "private_key_pem");
    config.credentials = std::move(credentials);
  }
  auto connected = co_await Client::connect(std::move(environment), std::move(config));
  if (!connected) {
    std::cerr << "connect: " << connected.error().message << '\n';
    status = 1;
    co_return;
  }
  auto& client = **connected;
  bool good = false;
  if (name == "http-standard-headers")
    good = co_await ask_everything(client);
  else if (name == "json-schema-2020-12-preservation")
    good = co_await echo_schema(client);
  else if (name == "json-schema-ref-no-deref")
    good = (co_await client.tools()).has_value();  // its server has nothing to call
  else if (const auto* calls = given.if_contains("toolCalls"))
    good = co_await call_listed(client, calls->as_array());
  else
    good = co_await call_all(client);
  if (name == "auth/authorization-server-migration") good = co_await call_all(client) && good;
  status = good ? 0 : 1;
  co_await client.close();
}

}  // namespace cove::test
