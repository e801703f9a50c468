#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mcp/client/server_config.hpp"

namespace cove::tools {

// What becomes of a call: it is made, refused, or made once somebody has said yes.
enum class Verdict : std::uint8_t { allow, deny, ask };
std::string_view name_of(Verdict verdict);

// Where a stdio server runs: in a sandbox of its own, as a process of the sandbox it was registered for, or, of the
// operator's alone, on the host.
enum class Place : std::uint8_t { own, inside, host };
std::string_view name_of(Place place);

// A server, as somebody registers it.
struct Definition {
  std::string name;
  std::string package;         // of its package; as its name unless somebody says otherwise
  boost::json::object params;  // its parameters as they were given, with every ${NAME}
  mcp::client::ServerConfig config;
  std::optional<Verdict> otherwise;                       // for tools that no pattern names
  std::vector<std::pair<std::string, Verdict>> verdicts;  // patterns with '*'; the strictest that fits counts
  Place place = Place::own;
  std::string user;          // whose process it is on the host; "": the server's own user
  std::string network_json;  // a policy for a sandbox of its own; "": no network
  bool writes = true;        // modules into the sandbox
  std::string directory;     // that its package is in, relative to the sandbox's

  [[nodiscard]] std::string path() const { return directory.empty() ? package : directory + "/" + package; }

  // Nothing: nobody has said. Deny before ask before allow.
  [[nodiscard]] std::optional<Verdict> verdict_on(std::string_view tool) const;
};

// The server's parameters and, beside them, "policy" {"default", "allow", "ask", "deny"}, "place", "network" and
// "directory". Errc::invalid names the field.
Result<Definition> parse_definition(std::string name, boost::json::object body);

// One of the operator's, of [tools.NAME], as JSON. It has no place inside a sandbox, and may have one on the host, with
// a "user".
Result<Definition> parse_named(const std::string& name, std::string_view text);

// Whether `text` fits a pattern in which '*' stands for any characters.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace cove::tools
