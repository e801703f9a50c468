#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "egress/host_name.hpp"
#include "egress/policy.hpp"

namespace cove::egress {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestValue = 8192;

tl::unexpected<Error> wrong(std::string_view field, std::string_view why) {
  return fail(Errc::invalid, fmt::format("{}: {}", field, why));
}

template <std::size_t N>
Result<> only(const json::object& object, std::string_view field, const std::array<std::string_view, N>& known) {
  for (const auto& member : object) {
    if (std::ranges::find(known, std::string_view(member.key())) == known.end())
      return wrong(field, fmt::format("there is no '{}'; there are {}", std::string_view(member.key()).substr(0, 64),
                                      fmt::join(known, ", ")));
  }
  return {};
}

const json::value* given(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<Mode> parse_mode(const json::value& value, std::string_view field) {
  if (value.is_string()) {
    const std::string_view text = value.get_string();
    if (text == "none") return Mode::none;
    if (text == "allow") return Mode::allow;
    if (text == "public") return Mode::open;
  }
  return wrong(field, "must be \"none\", \"allow\" or \"public\"");
}

Result<std::vector<Target>> parse_targets(const json::value* value, const std::string& field) {
  std::vector<Target> targets;
  if (value == nullptr) return targets;
  if (!value->is_array()) return wrong(field, "must be a list of strings");
  const auto& list = value->get_array();
  if (list.size() > kMaxRules)
    return fail(Errc::over_limit, fmt::format("{}: {} entries are more than the {} that a policy may have", field,
                                              list.size(), kMaxRules));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto place = fmt::format("{}[{}]", field, i);
    if (!list[i].is_string()) return wrong(place, "must be a string");
    auto target = parse_target(std::string_view(list[i].get_string()));
    if (!target) return wrong(place, target.error().message);
    if (std::ranges::find(targets, *target) == targets.end()) targets.push_back(std::move(*target));
  }
  return targets;
}

Result<std::uint64_t> parse_number(const json::object& object, std::string_view name, const std::string& field,
                                   std::uint64_t otherwise, std::uint64_t most) {
  const auto* value = given(object, name);
  if (value == nullptr) return otherwise;
  boost::system::error_code failed;
  const auto number = value->to_number<std::uint64_t>(failed);
  if (failed || !value->is_number() || number > most)
    return wrong(fmt::format("{}.{}", field, name), fmt::format("must be a whole number of 0 (no bound) to {}", most));
  return number;
}

Result<Caps> parse_caps(const json::value* value, const std::string& field) {
  Caps caps;
  if (value == nullptr) return caps;
  if (!value->is_object()) return wrong(field, "must be an object");
  const auto& object = value->get_object();
  COVE_CHECK(only(object, field,
                  std::to_array<std::string_view>({"connections", "connectionsPerSecond", "bytes", "bytesPerSecond"})));
  constexpr std::uint64_t kMostConnections = 1'000'000;
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 53;
  COVE_TRY(const auto connections, parse_number(object, "connections", field, caps.connections, kMostConnections));
  COVE_TRY(const auto per_second,
           parse_number(object, "connectionsPerSecond", field, caps.connections_per_second, kMostConnections));
  COVE_TRY(caps.bytes, parse_number(object, "bytes", field, caps.bytes, kMostBytes));
  COVE_TRY(caps.bytes_per_second, parse_number(object, "bytesPerSecond", field, caps.bytes_per_second, kMostBytes));
  caps.connections = static_cast<std::uint32_t>(connections);
  caps.connections_per_second = static_cast<std::uint32_t>(per_second);
  return caps;
}

Result<bool> parse_bool(const json::object& object, std::string_view name, std::string_view field, bool otherwise) {
  const auto* value = given(object, name);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) return wrong(fmt::format("{}.{}", field, name), "must be true or false");
  return value->get_bool();
}

bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= 256 && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

// Those decide where a request ends and who it is for; a rule that set them would change the meaning of requests.
bool belongs_to_the_connection(std::string_view header) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate",
       "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"});
  return std::ranges::find(kNames, header) != kNames.end();
}

Result<std::string> parse_text(const json::object& object, std::string_view name, const std::string& field) {
  const auto* value = given(object, name);
  if (value == nullptr) return wrong(fmt::format("{}.{}", field, name), "is missing");
  if (!value->is_string()) return wrong(fmt::format("{}.{}", field, name), "must be a string");
  return std::string(value->get_string());
}

Result<HeaderRule> parse_header(const json::value& value, const std::string& field) {
  if (!value.is_object()) return wrong(field, "must be an object");
  const auto& object = value.get_object();
  COVE_CHECK(only(object, field, std::to_array<std::string_view>({"host", "ports", "header", "value"})));
  HeaderRule rule;
  COVE_TRY(const auto host, parse_text(object, "host", field));
  auto name = canonical_name(host);
  if (!name) return wrong(field + ".host", name.error().message);
  rule.name = std::move(*name);
  if (const auto* ports = given(object, "ports")) {
    if (!ports->is_string()) return wrong(field + ".ports", "must be a string such as \"443\" or \"80,8000-8100\"");
    auto parsed = parse_ports(std::string_view(ports->get_string()));
    if (!parsed) return wrong(field + ".ports", parsed.error().message);
    rule.ports = std::move(*parsed);
  }
  COVE_TRY(rule.header, parse_text(object, "header", field));
  std::ranges::transform(rule.header, rule.header.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (!is_token(rule.header)) return wrong(field + ".header", "is not the name of a header");
  if (belongs_to_the_connection(rule.header))
    return wrong(field + ".header", fmt::format("'{}' cannot be set by a rule", rule.header));
  COVE_TRY(rule.value, parse_text(object, "value", field));
  const bool printable = std::ranges::all_of(rule.value, [](char c) { return c >= ' ' && c < '\x7f'; });
  // The value itself is not for messages.
  if (rule.value.empty() || rule.value.size() > kLongestValue || !printable || rule.value.front() == ' ' ||
      rule.value.back() == ' ')
    return wrong(field + ".value", "must be 1 to 8192 printable ASCII characters without blanks at the ends");
  return rule;
}

Result<std::vector<HeaderRule>> parse_headers(const json::value* value, const std::string& field) {
  std::vector<HeaderRule> rules;
  if (value == nullptr) return rules;
  if (!value->is_array()) return wrong(field, "must be a list of objects");
  const auto& list = value->get_array();
  if (list.size() > kMaxHeaders)
    return fail(Errc::over_limit, fmt::format("{}: {} entries are more than the {} that a policy may have", field,
                                              list.size(), kMaxHeaders));
  for (std::size_t i = 0; i < list.size(); ++i) {
    COVE_TRY(auto rule, parse_header(list[i], fmt::format("{}[{}]", field, i)));
    if (std::ranges::find(rules, rule) == rules.end()) rules.push_back(std::move(rule));
  }
  return rules;
}

std::size_t count_networks(const std::vector<Target>& targets) {
  return static_cast<std::size_t>(std::ranges::count(targets, Target::Kind::network, &Target::kind));
}

json::array texts_of(const std::vector<Target>& targets) {
  json::array list;
  for (const auto& target : targets) list.emplace_back(text_of(target));
  return list;
}

}  // namespace

std::string_view word_of(Mode mode) {
  switch (mode) {
    case Mode::none:
      break;
    case Mode::allow:
      return "allow";
    case Mode::open:
      return "public";
  }
  return "none";
}

Result<Policy> parse_policy(const json::value& value, std::string_view field) {
  const std::string place(field);
  Policy policy;
  if (value.is_null()) return policy;
  if (value.is_string()) {
    COVE_TRY(policy.mode, parse_mode(value, place));
    return policy;
  }
  if (!value.is_object()) return wrong(place, "must be an object, or one of \"none\", \"allow\" and \"public\"");
  const auto& object = value.get_object();
  COVE_CHECK(only(object, place,
                  std::to_array<std::string_view>({"mode", "allow", "deny", "headers", "caps", "learn", "checkSni"})));
  COVE_TRY(policy.allow, parse_targets(given(object, "allow"), place + ".allow"));
  COVE_TRY(policy.deny, parse_targets(given(object, "deny"), place + ".deny"));
  // Who lists something and says no more means the list.
  policy.mode = policy.allow.empty() ? Mode::none : Mode::allow;
  if (const auto* mode = given(object, "mode")) {
    COVE_TRY(policy.mode, parse_mode(*mode, place + ".mode"));
  }
  if (policy.allow.size() + policy.deny.size() > kMaxRules)
    return fail(Errc::over_limit,
                fmt::format("{}: allow and deny together have more than {} entries", place, kMaxRules));
  if (count_networks(policy.allow) + count_networks(policy.deny) > kMaxNetworks)
    return fail(Errc::over_limit,
                fmt::format("{}: allow and deny together have more than {} networks", place, kMaxNetworks));
  COVE_TRY(policy.headers, parse_headers(given(object, "headers"), place + ".headers"));
  COVE_TRY(policy.caps, parse_caps(given(object, "caps"), place + ".caps"));
  COVE_TRY(policy.learn, parse_bool(object, "learn", place, false));
  COVE_TRY(policy.check_sni, parse_bool(object, "checkSni", place, true));
  if (policy.mode == Mode::none && policy.learn)
    return wrong(place + ".learn", "there is nothing to learn in the mode \"none\"; use \"allow\" or \"public\"");
  return policy;
}

json::object to_json(const Policy& policy, Secrets secrets) {
  json::object object;
  object["mode"] = word_of(policy.mode);
  object["allow"] = texts_of(policy.allow);
  object["deny"] = texts_of(policy.deny);
  json::array headers;
  for (const auto& rule : policy.headers) {
    json::object header;
    header["host"] = rule.name;
    if (!rule.ports.empty()) header["ports"] = text_of(rule.ports);
    header["header"] = rule.header;
    if (secrets == Secrets::shown) header["value"] = rule.value;
    headers.push_back(std::move(header));
  }
  object["headers"] = std::move(headers);
  object["caps"] = {{"connections", policy.caps.connections},
                    {"connectionsPerSecond", policy.caps.connections_per_second},
                    {"bytes", policy.caps.bytes},
                    {"bytesPerSecond", policy.caps.bytes_per_second}};
  object["learn"] = policy.learn;
  object["checkSni"] = policy.check_sni;
  return object;
}

}  // namespace cove::egress
