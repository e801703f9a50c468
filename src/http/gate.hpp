#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/head.hpp"

namespace cove::http {

// Checks Host, Origin and Sec-Fetch-Site. Without it a web page of another site could use a browser, or a DNS name that
// points here, to call a server that trusts its network.
struct Gate {
  bool check_host = true;
  const std::vector<std::string>& allowed_hosts;
  const std::vector<std::string>& allowed_origins;
  std::string local_address;  // the one the client connected to: "127.0.0.1", "::1"
  std::uint16_t local_port = 0;

  [[nodiscard]] bool host_allowed(std::string_view host) const;
  // `host` is the request's Host header: the server's own pages have that origin.
  [[nodiscard]] bool origin_allowed(std::string_view origin, std::string_view host) const;
};

enum class Navigation { refused, allowed };

std::optional<Refusal> check_gate(const Gate& gate, const Head& head, Navigation navigation);

}  // namespace cove::http
