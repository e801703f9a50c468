#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "egress/host_name.hpp"
#include "egress/policy.hpp"

namespace cove::egress {
namespace {

constexpr std::size_t kMaxPortRanges = 64;

Result<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failed != std::errc{} || end != text.data() + text.size() || port == 0)
    return fail(Errc::invalid, fmt::format("'{}' is not a port of 1 to 65535", text));
  return port;
}

// Takes ":443" and the like off the end.
Result<std::vector<PortRange>> take_ports(std::string_view& text) {
  std::size_t colon = std::string_view::npos;
  if (text.starts_with('[')) {
    const auto bracket = text.find(']');
    if (bracket == std::string_view::npos) return fail(Errc::invalid, fmt::format("'{}' lacks a ']'", text));
    const auto rest = text.substr(bracket + 1);
    if (!rest.empty() && rest.front() != ':')
      return fail(Errc::invalid, fmt::format("'{}' after ']' is not a port", rest));
    if (!rest.empty()) colon = bracket + 1;
  } else if (std::ranges::count(text, ':') == 1) {
    colon = text.find(':');
  }
  if (colon == std::string_view::npos) return std::vector<PortRange>();
  const auto ports = text.substr(colon + 1);
  text = text.substr(0, colon);
  return parse_ports(ports);
}

}  // namespace

void merge_ports(std::vector<PortRange>& ranges) {
  std::ranges::sort(ranges, {}, [](const PortRange& range) { return range.first; });
  std::vector<PortRange> merged;
  for (const auto& range : ranges) {
    if (!merged.empty() && range.first <= static_cast<unsigned>(merged.back().last) + 1)
      merged.back().last = std::max(merged.back().last, range.last);
    else
      merged.push_back(range);
  }
  // All ports are written without any.
  if (merged.size() == 1 && merged.front().first <= 1 && merged.front().last == 65535) merged.clear();
  ranges = std::move(merged);
}

Result<std::vector<PortRange>> parse_ports(std::string_view text) {
  if (text == "*") return std::vector<PortRange>();
  std::vector<PortRange> ranges;
  auto rest = text;
  do {
    auto part = take_until(rest, ',');
    if (ranges.size() == kMaxPortRanges)
      return fail(Errc::over_limit, fmt::format("more than {} ranges of ports", kMaxPortRanges));
    const bool range = part.find('-') != std::string_view::npos;
    COVE_TRY(const auto first, parse_port(take_until(part, '-')));
    auto last = first;
    if (range) {
      COVE_TRY(last, parse_port(part));
    }
    if (last < first) return fail(Errc::invalid, fmt::format("the range of ports {}-{} is empty", first, last));
    ranges.push_back({.first = first, .last = last});
  } while (!rest.empty());
  if (text.ends_with(',')) return fail(Errc::invalid, fmt::format("'{}' ends with a comma", text));
  merge_ports(ranges);
  return ranges;
}

std::string text_of(const std::vector<PortRange>& ports) {
  std::string text;
  for (const auto& range : ports) {
    if (!text.empty()) text += ',';
    text += range.first == range.last ? fmt::format("{}", range.first) : fmt::format("{}-{}", range.first, range.last);
  }
  return text;
}

bool Target::matches_port(std::uint16_t port) const {
  return ports.empty() || std::ranges::any_of(ports, [port](const PortRange& range) { return range.contains(port); });
}

bool HeaderRule::matches(std::string_view canonical, std::uint16_t port) const {
  const auto in = [port](const PortRange& range) { return range.contains(port); };
  return canonical == name && (ports.empty() || std::ranges::any_of(ports, in));
}

bool Target::matches_name(std::string_view canonical) const {
  if (kind == Kind::name) return canonical == name;
  if (kind != Kind::suffix || canonical.size() <= name.size() + 1) return false;
  return canonical.ends_with(name) && canonical[canonical.size() - name.size() - 1] == '.';
}

Result<Target> parse_target(std::string_view text) {
  if (text.empty()) return fail(Errc::invalid, "it is empty");
  if (text.size() > 2048) return fail(Errc::invalid, "it has more than 2048 characters");
  if (text.find("://") != std::string_view::npos)
    return fail(Errc::invalid, fmt::format("'{}' is a URL; write the host and the port, as in example.com:443", text));
  Target target;
  auto host = text;
  COVE_TRY(target.ports, take_ports(host));
  if (host == "*" || host == "*." || host == "**")
    return fail(Errc::invalid, fmt::format("'{}' would be every name; the mode \"public\" is meant for that", host));
  const bool bracketed = host.starts_with('[');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto digits_only = host.find_first_not_of("0123456789./") == std::string_view::npos;
  if (bracketed || digits_only || host.find(':') != std::string_view::npos) {
    target.kind = Target::Kind::network;
    COVE_TRY(target.network, outbound::parse_network(host));
    return target;
  }
  if (host.find('/') != std::string_view::npos)
    return fail(Errc::invalid, fmt::format("'{}' has a path; rules are for hosts and networks", host));
  if (host.starts_with("*.")) {
    target.kind = Target::Kind::suffix;
    host.remove_prefix(2);
  }
  if (host.find('*') != std::string_view::npos)
    return fail(Errc::invalid, fmt::format("'{}' has a '*' elsewhere than in front of the first dot", text));
  COVE_TRY(target.name, canonical_name(host));
  return target;
}

std::string text_of(const Target& target) {
  std::string text;
  if (target.kind == Target::Kind::network) {
    text = outbound::text_of(target.network);
    if (target.network.address.is_v6() && !target.ports.empty()) text = fmt::format("[{}]", text);
  } else {
    text = target.kind == Target::Kind::suffix ? "*." + target.name : target.name;
  }
  return target.ports.empty() ? text : fmt::format("{}:{}", text, text_of(target.ports));
}

}  // namespace cove::egress
