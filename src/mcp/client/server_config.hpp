#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace cove::mcp::client {

// How a client without a person gets tokens for a server that asks for them (RFC 6749 section 4.4, RFC 7523).
struct Credentials {
  std::string client_id;
  std::string client_secret;
  std::string private_key;  // PEM; signs an assertion instead of sending a secret
  std::string algorithm = "ES256";
  std::string scope;  // asked for when the server names none
  bool operator==(const Credentials&) const = default;
};

// One MCP server, as a person describes it.
struct ServerConfig {
  enum class Kind {
    stdio,      // a program that speaks over its pipes
    http,       // Streamable HTTP
    sse,        // HTTP+SSE of 2024-11-05
    automatic,  // Streamable HTTP, then HTTP+SSE
  };
  Kind kind = Kind::automatic;

  // Of stdio.
  std::string command{};
  std::vector<std::string> args{};
  std::map<std::string, std::string> env{};
  std::string cwd{};

  // Of the others.
  std::string url{};
  std::vector<std::pair<std::string, std::string>> headers{};  // each name once
  std::optional<Credentials> credentials{};

  std::chrono::milliseconds timeout{60'000};              // of a call, from its last sign of life
  std::chrono::milliseconds connect_timeout{30'000};      // of start and handshake
  std::optional<std::vector<std::string>> allow_tools{};  // names, or patterns with '*'; none: every tool
  std::vector<std::string> deny_tools{};                  // wins over the other

  // Whether the lists admit a tool of this name.
  [[nodiscard]] bool admits(std::string_view tool) const;
  bool operator==(const ServerConfig&) const = default;
};

// Reads `{"command", "args"?, "env"?, "cwd"?}` or `{"url", "headers"?, "type"?}`, with `timeout`, `connect_timeout` (in
// seconds), `allow_tools`, `deny_tools` and `auth`. Without a type, a path with "/sse" in it means SSE. Unknown members
// are passed over: other programs' documents have their own. Errc::invalid names the field.
Result<ServerConfig> read_config(const boost::json::object& object);
// The same, of a document `{"mcpServers": {NAME: …}}`, or of its inner object.
Result<std::map<std::string, ServerConfig>> read_servers(const boost::json::object& document);

// The value of a variable; none: there is none.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
// Replaces each ${NAME} in a text of the configuration. Errc::invalid names the field and the variable without a value.
Result<ServerConfig> substitute(ServerConfig config, const Lookup& lookup);

// As read_config takes it, with a ${NAME} as it was written. Before substitute(), nothing in it is secret that a person
// did not write into it.
boost::json::object to_json(const ServerConfig& config);

}  // namespace cove::mcp::client
