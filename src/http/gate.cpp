#include "http/gate.hpp"

#include <algorithm>

#include "http/encoding.hpp"

namespace cove::http {
namespace {

struct HostPort {
  std::string_view name;  // without brackets
  std::string_view port;  // may be empty
};

HostPort split_host(std::string_view host) {
  HostPort out;
  if (host.starts_with('[')) {
    const auto end = std::min(host.find(']'), host.size());
    out.name = host.substr(1, end - 1);
    if (end + 2 <= host.size()) out.port = host.substr(end + 2);
    return out;
  }
  const auto colon = host.find(':');
  out.name = host.substr(0, colon);
  if (colon != std::string_view::npos) out.port = host.substr(colon + 1);
  return out;
}

constexpr const char* kNotOurs =
    "this server does not answer to that host name: the setting http.allowed_hosts lists those it does";

Refusal denied(std::string sentence) {
  return Refusal{.status = 403, .code = "denied", .sentence = std::move(sentence)};
}

}  // namespace

bool Gate::host_allowed(std::string_view host) const {
  if (!check_host) return true;
  const auto asked = split_host(host);
  const bool ours =
      asked.name == "127.0.0.1" || asked.name == "::1" || asked.name == "localhost" || asked.name == local_address;
  if (ours && (asked.port.empty() || asked.port == std::to_string(local_port))) return true;
  return std::ranges::any_of(allowed_hosts, [&](const std::string& entry) {
    // A bare IPv6 address in the list has colons that are no port's.
    const bool bare_v6 = !entry.starts_with('[') && std::ranges::count(entry, ':') > 1;
    const auto allowed = bare_v6 ? HostPort{.name = entry, .port = {}} : split_host(entry);
    return equals_ignoring_case(allowed.name, asked.name) && (allowed.port.empty() || allowed.port == asked.port);
  });
}

bool Gate::origin_allowed(std::string_view origin, std::string_view host) const {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!host.empty() && origin.starts_with(scheme) && equals_ignoring_case(origin.substr(scheme.size()), host))
      return true;
  }
  return std::ranges::any_of(allowed_origins,
                             [&](const auto& allowed) { return equals_ignoring_case(allowed, origin); });
}

std::optional<Refusal> check_gate(const Gate& gate, const Head& head, Navigation navigation) {
  if (!head.host.empty() && !gate.host_allowed(head.host)) return denied(kNotOurs);
  if (!head.target_host.empty() && !gate.host_allowed(head.target_host)) {
    return denied(kNotOurs);
  }
  const auto& request = head.request;
  const auto origins = request.header_all("Origin");
  if (!origins.empty()) {
    const bool ok = origins.size() == 1 && gate.origin_allowed(origins.front(), head.host);
    if (!ok) return denied("pages of that Origin may not use this server");
    return std::nullopt;
  }
  // Browsers leave Origin out of plain GETs, and say this much instead.
  const auto site = request.header("Sec-Fetch-Site");
  if (site.empty() || site == "none" || site == "same-origin") return std::nullopt;
  const bool navigates = request.header("Sec-Fetch-Mode") == "navigate" &&
                         request.header("Sec-Fetch-Dest") == "document" &&
                         (request.method == verb::get || request.method == verb::head);
  if (navigates && navigation == Navigation::allowed) return std::nullopt;
  return denied("pages of other sites may not use this server");
}

}  // namespace cove::http
