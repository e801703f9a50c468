#include "mcp/client/server_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "json/fields.hpp"
#include "outbound/url.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using Kind = ServerConfig::Kind;

constexpr std::size_t kMaxText = 64 * 1024;
constexpr std::size_t kMaxItems = 1024;
constexpr double kMaxSeconds = 24 * 3600;

Result<std::string> short_text(const json::object& object, std::string_view name) {
  COVE_TRY(const auto text, cove::json::text_field(object, name));
  if (!text) return std::string();
  if (text->size() > kMaxText) return cove::json::wrong_field(name, fmt::format("is longer than {} bytes", kMaxText));
  if (text->find('\0') != std::string::npos) return cove::json::wrong_field(name, "must not have a zero byte");
  return *text;
}

Result<std::optional<std::vector<std::string>>> list_of_texts(const json::object& object, std::string_view name) {
  const auto* value = cove::json::given_field(object, name);
  if (value == nullptr) return std::optional<std::vector<std::string>>();
  if (!value->is_array()) return cove::json::wrong_field(name, "must be an array of strings");
  if (value->as_array().size() > kMaxItems)
    return cove::json::wrong_field(name, fmt::format("has over {} items", kMaxItems));
  std::vector<std::string> out;
  for (const auto& item : value->as_array()) {
    if (!item.is_string()) return cove::json::wrong_field(fmt::format("{}[{}]", name, out.size()), "must be a string");
    if (item.as_string().size() > kMaxText || item.as_string().find('\0') != json::string::npos)
      return cove::json::wrong_field(fmt::format("{}[{}]", name, out.size()), "is too long or has a zero byte");
    out.emplace_back(item.as_string());
  }
  return std::optional(std::move(out));
}

Result<std::vector<std::pair<std::string, std::string>>> map_of_texts(const json::object& object,
                                                                      std::string_view name) {
  COVE_TRY(const auto* inner, cove::json::object_field(object, name));
  std::vector<std::pair<std::string, std::string>> out;
  if (inner == nullptr) return out;
  if (inner->size() > kMaxItems) return cove::json::wrong_field(name, fmt::format("has over {} members", kMaxItems));
  for (const auto& [key, value] : *inner) {
    const auto place = fmt::format("{}.{}", name, std::string_view(key).substr(0, 100));
    if (!value.is_string()) return cove::json::wrong_field(place, "must be a string");
    const std::string_view text(value.as_string());
    if (key.empty() || key.size() + text.size() > kMaxText ||
        std::string_view(key).find('\0') != std::string_view::npos || text.find('\0') != std::string_view::npos)
      return cove::json::wrong_field(place, "is empty, too long or has a zero byte");
    out.emplace_back(key, text);
  }
  return out;
}

Result<std::chrono::milliseconds> seconds_field(const json::object& object, std::string_view name,
                                                std::chrono::milliseconds usual) {
  COVE_TRY(const auto seconds, cove::json::number_field(object, name));
  if (!seconds) return usual;
  if (!(*seconds > 0) || *seconds > kMaxSeconds)
    return cove::json::wrong_field(name,
                                   fmt::format("must be a number of seconds, above 0 and at most {:.0f}", kMaxSeconds));
  return std::chrono::milliseconds(std::max(1L, std::lround(*seconds * 1000)));
}

Result<std::optional<Credentials>> read_credentials(const json::object& object) {
  COVE_TRY(const auto* auth, cove::json::object_field(object, "auth"));
  if (auth == nullptr) return std::optional<Credentials>();
  Credentials out;
  COVE_TRY(out.client_id, short_text(*auth, "client_id"));
  COVE_TRY(out.client_secret, short_text(*auth, "client_secret"));
  COVE_TRY(out.private_key, short_text(*auth, "private_key"));
  COVE_TRY(out.scope, short_text(*auth, "scope"));
  COVE_TRY(const auto algorithm, short_text(*auth, "algorithm"));
  if (!algorithm.empty()) out.algorithm = algorithm;
  if (out.algorithm != "ES256" && out.algorithm != "RS256")
    return cove::json::wrong_field("auth.algorithm", "must be \"ES256\" or \"RS256\"");
  if (out.client_id.empty()) return cove::json::wrong_field("auth.client_id", "is missing");
  if (out.client_secret.empty() == out.private_key.empty())
    return cove::json::wrong_field("auth", "must have a client_secret or a private_key, and not both");
  return std::optional(std::move(out));
}

bool header_name(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != kOthers.npos;
  });
}

bool header_value(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n'; });
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

Result<> check_headers(const ServerConfig& config) {
  // What the protocol says itself is not for a configuration to say.
  constexpr std::array<std::string_view, 8> kOurs{"accept", "connection",    "content-length", "content-type",
                                                  "host",   "last-event-id", "mcp-session-id", "transfer-encoding"};
  std::vector<std::string> seen;
  for (const auto& [name, value] : config.headers) {
    const auto place = fmt::format("headers.{}", name);
    if (!header_name(name)) return cove::json::wrong_field(place, "is not the name of a header");
    if (!header_value(value)) return cove::json::wrong_field(place, "must be one line");
    const auto small = lower(name);
    if (std::ranges::find(kOurs, small) != kOurs.end() || small.starts_with("mcp-"))
      return cove::json::wrong_field(place, "is a header that the protocol sets itself; leave it out");
    if (std::ranges::find(seen, small) != seen.end()) return cove::json::wrong_field(place, "is given twice");
    seen.push_back(small);
  }
  return {};
}

// The type that a person wrote, and what the address says.
Result<Kind> kind_of(std::string_view type, std::string_view url) {
  const auto path = url.substr(0, url.find_first_of("?#"));
  if (type == "http" || type == "streamable_http" || type == "streamable-http") return Kind::http;
  // Some have written "sse" for servers of Streamable HTTP; those are found either way.
  if (type == "sse") return path.find("/mcp") == std::string_view::npos ? Kind::sse : Kind::automatic;
  if (!type.empty())
    return cove::json::wrong_field(
        "type",
        fmt::format("must be \"stdio\", \"http\", \"streamable_http\" or \"sse\", not \"{}\"", type.substr(0, 50)));
  if (path.find("/mcp") == std::string_view::npos && path.find("/sse") != std::string_view::npos) return Kind::sse;
  return Kind::automatic;
}

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t at = 0;
  std::size_t in = 0;
  std::size_t star = std::string_view::npos;
  std::size_t mark = 0;
  while (in < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      mark = in;
    } else if (at < pattern.size() && pattern[at] == name[in]) {
      ++at;
      ++in;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in = ++mark;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

bool variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Result<> replace_variables(std::string& text, std::string_view field, const Lookup& lookup) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const auto begin = text.find("${", at);
    if (begin == std::string::npos) break;
    const auto end = text.find('}', begin);
    const auto name = end == std::string::npos ? std::string() : text.substr(begin + 2, end - begin - 2);
    if (!variable_name(name)) {
      out.append(text, at, begin + 2 - at);
      at = begin + 2;
      continue;
    }
    const auto value = lookup(name);
    if (!value)
      return cove::json::wrong_field(
          field, fmt::format("refers to ${{{}}}, which is not set in the environment of the server; set it", name));
    out.append(text, at, begin - at);
    out += *value;
    at = end + 1;
  }
  out.append(text, at);
  if (out.size() > kMaxText * 2) return cove::json::wrong_field(field, "is too long with its variables replaced");
  text = std::move(out);
  return {};
}

double seconds_of(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

std::string_view type_of(Kind kind) {
  switch (kind) {
    case Kind::stdio:
      return "stdio";
    case Kind::http:
      return "http";
    case Kind::sse:
      return "sse";
    case Kind::automatic:
      break;
  }
  return "";
}

json::array array_of(const std::vector<std::string>& texts) {
  json::array out;
  for (const auto& text : texts) out.emplace_back(text);
  return out;
}

}  // namespace

bool ServerConfig::admits(std::string_view tool) const {
  const auto fits = [tool](const std::string& pattern) { return matches(pattern, tool); };
  if (std::ranges::any_of(deny_tools, fits)) return false;
  return !allow_tools || std::ranges::any_of(*allow_tools, fits);
}

Result<ServerConfig> read_config(const json::object& object) {
  ServerConfig config;
  COVE_TRY(config.command, short_text(object, "command"));
  COVE_TRY(config.url, short_text(object, "url"));
  COVE_TRY(const auto type, short_text(object, "type"));
  if (config.command.empty() && config.url.empty())
    return fail(Errc::invalid, "neither a \"command\" nor a \"url\" is given; a server has one of them");
  if (!config.command.empty() && !config.url.empty())
    return fail(Errc::invalid, "both a \"command\" and a \"url\" are given; a server has one of them");
  if (!config.command.empty()) {
    if (!type.empty() && type != "stdio")
      return cove::json::wrong_field("type", "must be \"stdio\" for a server with a command");
    config.kind = Kind::stdio;
    COVE_TRY(auto args, list_of_texts(object, "args"));
    if (args) config.args = std::move(*args);
    COVE_TRY(const auto env, map_of_texts(object, "env"));
    for (const auto& [name, value] : env) {
      if (name.find('=') != std::string::npos)
        return cove::json::wrong_field("env." + name, "must not have a '=' in its name");
      config.env[name] = value;
    }
    COVE_TRY(config.cwd, short_text(object, "cwd"));
  } else {
    COVE_TRY(config.kind, kind_of(type, config.url));
    COVE_TRY(config.headers, map_of_texts(object, "headers"));
    COVE_CHECK(check_headers(config));
    COVE_TRY(config.credentials, read_credentials(object));
    // One with a variable in it is looked at when that is replaced.
    if (config.url.find("${") == std::string::npos) {
      if (const auto url = outbound::parse_url(config.url); !url)
        return cove::json::wrong_field("url", url.error().message);
    }
  }
  COVE_TRY(config.timeout, seconds_field(object, "timeout", config.timeout));
  COVE_TRY(config.connect_timeout, seconds_field(object, "connect_timeout", config.connect_timeout));
  COVE_TRY(config.allow_tools, list_of_texts(object, "allow_tools"));
  COVE_TRY(auto denied, list_of_texts(object, "deny_tools"));
  if (denied) config.deny_tools = std::move(*denied);
  return config;
}

Result<std::map<std::string, ServerConfig>> read_servers(const json::object& document) {
  COVE_TRY(const auto* inner, cove::json::object_field(document, "mcpServers"));
  const auto& servers = inner == nullptr ? document : *inner;
  if (servers.size() > kMaxItems)
    return cove::json::wrong_field("mcpServers", fmt::format("has over {} members", kMaxItems));
  std::map<std::string, ServerConfig> out;
  for (const auto& [name, value] : servers) {
    if (name.empty()) return cove::json::wrong_field("mcpServers", "has a server without a name");
    if (!value.is_object()) return cove::json::wrong_field(name, "must be an object");
    auto config = read_config(value.as_object());
    if (!config)
      return fail(config.error().code, fmt::format("{}: {}", std::string_view(name), config.error().message));
    out.emplace(name, std::move(*config));
  }
  return out;
}

Result<ServerConfig> substitute(ServerConfig config, const Lookup& lookup) {
  COVE_CHECK(replace_variables(config.command, "command", lookup));
  for (std::size_t i = 0; i < config.args.size(); ++i)
    COVE_CHECK(replace_variables(config.args[i], fmt::format("args[{}]", i), lookup));
  for (auto& [name, value] : config.env) COVE_CHECK(replace_variables(value, "env." + name, lookup));
  COVE_CHECK(replace_variables(config.cwd, "cwd", lookup));
  COVE_CHECK(replace_variables(config.url, "url", lookup));
  for (auto& [name, value] : config.headers) COVE_CHECK(replace_variables(value, "headers." + name, lookup));
  if (config.credentials) {
    COVE_CHECK(replace_variables(config.credentials->client_id, "auth.client_id", lookup));
    COVE_CHECK(replace_variables(config.credentials->client_secret, "auth.client_secret", lookup));
    COVE_CHECK(replace_variables(config.credentials->private_key, "auth.private_key", lookup));
  }
  if (config.kind == Kind::stdio) return config;
  if (const auto url = outbound::parse_url(config.url); !url)
    return cove::json::wrong_field("url", url.error().message);
  COVE_CHECK(check_headers(config));
  return config;
}

json::object to_json(const ServerConfig& config) {
  json::object out;
  if (config.kind == Kind::stdio) {
    out["command"] = config.command;
    if (!config.args.empty()) out["args"] = array_of(config.args);
    if (!config.env.empty()) {
      auto& env = out["env"].emplace_object();
      for (const auto& [name, value] : config.env) env[name] = value;
    }
    if (!config.cwd.empty()) out["cwd"] = config.cwd;
  } else {
    out["url"] = config.url;
    if (const auto type = type_of(config.kind); !type.empty()) out["type"] = type;
    if (!config.headers.empty()) {
      auto& headers = out["headers"].emplace_object();
      for (const auto& [name, value] : config.headers) headers[name] = value;
    }
    if (config.credentials) {
      auto& auth = out["auth"].emplace_object();
      auth["client_id"] = config.credentials->client_id;
      if (!config.credentials->client_secret.empty()) auth["client_secret"] = config.credentials->client_secret;
      if (!config.credentials->private_key.empty()) {
        auth["private_key"] = config.credentials->private_key;
        auth["algorithm"] = config.credentials->algorithm;
      }
      if (!config.credentials->scope.empty()) auth["scope"] = config.credentials->scope;
    }
  }
  const ServerConfig usual;
  if (config.timeout != usual.timeout) out["timeout"] = seconds_of(config.timeout);
  if (config.connect_timeout != usual.connect_timeout) out["connect_timeout"] = seconds_of(config.connect_timeout);
  if (config.allow_tools) out["allow_tools"] = array_of(*config.allow_tools);
  if (!config.deny_tools.empty()) out["deny_tools"] = array_of(config.deny_tools);
  return out;
}

}  // namespace cove::mcp::client
