#include "tools/definition.hpp"

#include <array>
#include <boost/json.hpp>

#include "egress/policy.hpp"
#include "json/fields.hpp"
#include "tools/codegen/names.hpp"

namespace cove::tools {
namespace {

namespace json = boost::json;
using cove::json::object_field;
using cove::json::text_field;

constexpr std::size_t kMaxPatterns = 1000;
constexpr std::size_t kMaxParams = 64U << 10;

Result<Verdict> verdict_of(std::string_view text) {
  if (text == "allow") return Verdict::allow;
  if (text == "deny") return Verdict::deny;
  if (text == "ask") return Verdict::ask;
  return fail(Errc::invalid, "policy.default must be allow, ask or deny");
}

Result<> read_policy(Definition& definition, const json::object& body) {
  COVE_TRY(const auto* policy, object_field(body, "policy"));
  if (policy == nullptr) return {};
  for (const auto& [name, value] : *policy) {
    if (name != "default" && name != "allow" && name != "ask" && name != "deny")
      return fail(Errc::invalid,
                  fmt::format("policy.{}: there is no such field; there are default, allow, ask and deny",
                              std::string_view(name).substr(0, 100)));
  }
  COVE_TRY(const auto otherwise, text_field(*policy, "default"));
  if (otherwise) {
    COVE_TRY(definition.otherwise, verdict_of(*otherwise));
  }
  for (const auto verdict : {Verdict::deny, Verdict::ask, Verdict::allow}) {
    const auto* list = cove::json::given_field(*policy, name_of(verdict));
    if (list == nullptr) continue;
    if (!list->is_array())
      return fail(Errc::invalid, fmt::format("policy.{} must be a list of names", name_of(verdict)));
    for (const auto& pattern : list->get_array()) {
      if (!pattern.is_string() || pattern.get_string().empty())
        return fail(Errc::invalid, fmt::format("policy.{} must be a list of names", name_of(verdict)));
      definition.verdicts.emplace_back(std::string(pattern.get_string()), verdict);
    }
  }
  if (definition.verdicts.size() > kMaxPatterns)
    return fail(Errc::invalid, fmt::format("policy has more than {} names", kMaxPatterns));
  return {};
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  return verdict == Verdict::allow ? "allow" : verdict == Verdict::deny ? "deny" : "ask";
}

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in_text = 0;
  auto star = std::string_view::npos;
  std::size_t behind = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      behind = in_text;
    } else if (at < pattern.size() && pattern[at] == text[in_text]) {
      ++at;
      ++in_text;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in_text = ++behind;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

std::optional<Verdict> Definition::verdict_on(std::string_view tool) const {
  std::optional<Verdict> found;
  for (const auto& [pattern, verdict] : verdicts) {
    if (!matches(pattern, tool)) continue;
    if (verdict == Verdict::deny) return verdict;
    if (!found || verdict == Verdict::ask) found = verdict;
  }
  return found ? found : otherwise;
}

std::string_view name_of(Place place) {
  if (place == Place::host) return "host";
  return place == Place::own ? "own" : "inside";
}

namespace {

enum class Whose { anybody, operators };

Result<Definition> read_definition(std::string name, json::object body, Whose whose) {
  if (!codegen::good_package_name(name))
    return fail(
        Errc::invalid,
        "the name of a server is that of a Python package: letters, digits and '_', not beginning with a digit");
  Definition definition{.name = name, .package = std::move(name)};
  COVE_CHECK(read_policy(definition, body));
  COVE_TRY(const auto place, text_field(body, "place"));
  if (place && *place == "host" && whose == Whose::operators) definition.place = Place::host;
  if (place && *place != "own" && *place != "inside" && definition.place != Place::host)
    return fail(Errc::invalid, "place must be own (a sandbox of its own) or inside (this sandbox)");
  if (place && *place == "inside") definition.place = Place::inside;
  if (const auto* network = cove::json::given_field(body, "network")) {
    if (definition.place == Place::inside)
      return fail(Errc::invalid, "network: a server inside this sandbox has the network of this sandbox");
    if (definition.place == Place::host)
      return fail(Errc::invalid, "network: a server on the host has the network of the host");
    COVE_CHECK(egress::parse_policy(*network, "network"));
    definition.network_json = json::serialize(*network);
  }
  COVE_TRY(const auto directory, text_field(body, "directory"));
  definition.directory = directory.value_or("mcptools");
  if (!definition.directory.empty() && !codegen::good_package_path(definition.directory))
    return fail(Errc::invalid, "directory must be a path of Python packages, such as mcptools or lib/tools");
  COVE_TRY(const auto user, text_field(body, "user"));
  definition.user = user.value_or("");
  if (!definition.user.empty() && definition.place != Place::host)
    return fail(Errc::invalid, "user: only a server of the configuration with place = \"host\" has one");
  for (const auto* of_ours : {"policy", "place", "network", "directory", "name", "user"}) body.erase(of_ours);
  if (json::serialize(body).size() > kMaxParams)
    return fail(Errc::over_limit, fmt::format("the parameters of a server are at most {} KiB", kMaxParams >> 10));
  COVE_TRY(definition.config, mcp::client::read_config(body));
  if (definition.place == Place::host && definition.config.kind != mcp::client::ServerConfig::Kind::stdio)
    return fail(Errc::invalid, "place: only a server with a command runs on the host");
  definition.params = std::move(body);
  return definition;
}

}  // namespace

Result<Definition> parse_definition(std::string name, json::object body) {
  return read_definition(std::move(name), std::move(body), Whose::anybody);
}

Result<Definition> parse_named(const std::string& name, std::string_view text) {
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  if (failed || !value.is_object()) return fail(Errc::invalid, "it must be a table");
  COVE_TRY(auto definition, read_definition(name, std::move(value.get_object()), Whose::operators));
  if (definition.place == Place::inside)
    return fail(Errc::invalid, "place: a server for every sandbox runs in a sandbox of its own");
  definition.writes = false;
  return definition;
}

}  // namespace cove::tools
