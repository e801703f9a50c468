#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "outbound/network.hpp"

namespace cove::egress {

// none: no way out. allow: what a rule allows. open ("public" on the wire): every public address and name that no rule
// denies.
enum class Mode : std::uint8_t { none, allow, open };
std::string_view word_of(Mode mode);

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 65535;
  [[nodiscard]] bool contains(std::uint16_t port) const { return first <= port && port <= last; }
  bool operator==(const PortRange&) const = default;
};

using outbound::Network;

// What one entry of a list matches: a name, every name below one, or a network; all ports unless some are given.
struct Target {
  enum class Kind : std::uint8_t { name, suffix, network };
  Kind kind = Kind::name;
  std::string name;  // canonical; of `*.example.com` the part after the star: "example.com"
  Network network;
  std::vector<PortRange> ports;  // sorted, disjoint, merged; empty: every port

  [[nodiscard]] bool matches_port(std::uint16_t port) const;
  [[nodiscard]] bool matches_name(std::string_view canonical) const;
  bool operator==(const Target&) const = default;
};
// "example.com", "*.example.com:443", "10.0.0.0/8:80,8000-8100", "[2001:db8::/32]:443", "192.0.2.7". The error says
// which part is wrong.
Result<Target> parse_target(std::string_view text);
std::string text_of(const Target& target);
// "443", "80,8000-8100"; "*" means every port. Sorted and merged.
Result<std::vector<PortRange>> parse_ports(std::string_view text);
std::string text_of(const std::vector<PortRange>& ports);
// Sorted, disjoint; empty if they are all ports.
void merge_ports(std::vector<PortRange>& ranges);

// A header that egress adds to requests for a name. `value` never leaves the server but towards that name.
struct HeaderRule {
  std::string name;  // canonical host name, exact
  std::vector<PortRange> ports;
  std::string header;
  std::string value;

  [[nodiscard]] bool matches(std::string_view canonical, std::uint16_t port) const;
  bool operator==(const HeaderRule&) const = default;
};

// 0: no bound of its own.
struct Caps {
  std::uint32_t connections = 256;  // at once
  std::uint32_t connections_per_second = 200;
  std::uint64_t bytes = 0;             // both directions, in all, for the sandbox's life under this policy
  std::uint64_t bytes_per_second = 0;  // both directions
  bool operator==(const Caps&) const = default;
};

struct Policy {
  Mode mode = Mode::none;
  std::vector<Target> allow;
  std::vector<Target> deny;  // wins over `allow`
  std::vector<HeaderRule> headers;
  Caps caps;
  bool learn = false;     // allows what the mode `open` would, records it, and proposes a list
  bool check_sni = true;  // a TLS client hello that names another host than the one that was meant is refused
  bool operator==(const Policy&) const = default;
};

inline constexpr std::size_t kMaxRules = 1024;    // of allow and deny together
inline constexpr std::size_t kMaxNetworks = 256;  // of those, networks
inline constexpr std::size_t kMaxHeaders = 32;
inline constexpr std::size_t kMaxPortGroups = 15;

// From and to the JSON of the API:
//   {"mode":"allow","allow":["example.com:443"],"deny":[],"headers":[{"host":"api.example.com","ports":"443","header":"authorization","value":"…"}],
//    "caps":{"connections":…,"connectionsPerSecond":…,"bytes":…,"bytesPerSecond":…},"learn":false,"checkSni":true}
// A policy may also be a plain string, the mode, or null: none. Without a mode it is "allow" if something is listed.
// Fields that are not known are refused. Errors name the field: "network.allow[3]: …".
Result<Policy> parse_policy(const boost::json::value& value, std::string_view field);
enum class Secrets : std::uint8_t { hidden, shown };
boost::json::object to_json(const Policy& policy, Secrets secrets);

enum class Verdict : std::uint8_t { allowed, denied };
struct Decision {
  Verdict verdict = Verdict::denied;
  std::string rule;  // text of the entry that decided; "default", "mode none", "private address", "caps.connections", …
};
// A name is judged before anything is resolved. `name` is canonical. Without a port: whether any port is allowed.
Decision decide_name(const Policy& policy, std::string_view name, std::optional<std::uint16_t> port);
// An address that was dialled as such.
Decision decide_address(const Policy& policy, const boost::asio::ip::address& address, std::uint16_t port);
// An address that an allowed name has: refused unless it is public and not this machine's, or a network of `allow`
// lists it with the port.
Decision decide_resolved(const Policy& policy, const boost::asio::ip::address& address, std::uint16_t port);
// The targets of `allow` that are not public: only who operates the server may list them.
std::vector<std::string> private_targets(const Policy& policy);

}  // namespace cove::egress
