#include "client/address.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace cove::client {
namespace {

bool valid_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  return failed == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

}  // namespace

std::string Address::authority() const {
  const auto name = host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
  return port == "80" ? name : fmt::format("{}:{}", name, port);
}

std::string Address::url() const {
  return fmt::format("http://{}{}", authority(), prefix);
}

Result<Address> parse_address(std::string_view url) {
  const auto wrong = [url](std::string_view why) {
    return fail(Errc::invalid, fmt::format("'{}' is not a server URL such as http://127.0.0.1:8000: {}", url, why));
  };
  if (url.starts_with("https://"))
    return wrong("https is not supported; put a TLS proxy or a tunnel in front and give its http address");
  if (!url.starts_with("http://")) return wrong("it must start with http://");
  auto rest = url.substr(7);
  const bool printable =
      std::ranges::all_of(rest, [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '#' && c != '?'; });
  if (!printable) return wrong("it may hold no spaces, control characters, ? or #");
  const auto slash = rest.find('/');
  auto authority = rest.substr(0, slash);
  Address address{.host = "", .port = "80", .prefix = std::string(slash == rest.npos ? "" : rest.substr(slash))};
  while (address.prefix.ends_with('/')) address.prefix.pop_back();
  if (authority.find('@') != authority.npos) return wrong("a key goes into --key or COVE_API_KEY, not before an @");
  std::string_view after;
  if (authority.starts_with('[')) {
    const auto bracket = authority.find(']');
    if (bracket == authority.npos) return wrong("the ] is missing");
    address.host = authority.substr(1, bracket - 1);
    after = authority.substr(bracket + 1);
  } else {
    const auto colon = authority.find(':');
    address.host = authority.substr(0, colon);
    after = colon == authority.npos ? "" : authority.substr(colon);
  }
  if (address.host.empty()) return wrong("it names no host");
  if (!after.empty()) {
    if (!after.starts_with(':') || !valid_port(after.substr(1))) return wrong("the port must be 1 to 65535");
    address.port = after.substr(1);
  }
  return address;
}

std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~')
      out.push_back(c);
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

Target& Target::with(std::string_view name, std::string_view value) {
  text_ += fmt::format("{}{}={}", separator_, encoded(name), encoded(value));
  separator_ = '&';
  return *this;
}

Target sandbox_target(std::string_view id, std::string_view below) {
  return Target(fmt::format("/v1/sandboxes/{}{}", encoded(id), below));
}

}  // namespace cove::client
