#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::outbound {

// Where a request goes. Made by parse_url, so always canonical: two that mean the same host are spelled the same.
struct Url {
  bool tls = false;
  std::string host;  // lower case, without a last dot; a literal IPv6 address without its brackets
  std::uint16_t port = 0;
  std::string target;  // path and query, as sent

  [[nodiscard]] bool literal_v6() const { return host.find(':') != std::string::npos; }
  // "example.org", "example.org:8443", "[2001:db8::1]:80": as in a Host header.
  [[nodiscard]] std::string authority() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool same_origin(const Url& other) const;
};

// Errc::invalid with the reason: another scheme, a user or password, a host that is no name and no canonical address
// ("127.1", "0x7f000001"), a port of 0. A fragment is dropped.
Result<Url> parse_url(std::string_view text);
// Resolves a reference found in an answer, absolute or relative.
Result<Url> resolve_url(const Url& base, std::string_view reference);

}  // namespace cove::outbound
