#include <fmt/format.h>

#include <algorithm>

#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/tool.hpp"
#include "egress/policy.hpp"
#include "network/requested.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;
using cove::mcp::Question;
using Targets = std::vector<egress::Target>;

constexpr std::size_t kMaxHosts = 50;

Result<Targets> hosts_argument(const json::object& arguments) {
  COVE_TRY(const auto given, strings_argument(arguments, "hosts"));
  if (given.empty()) return fail(Errc::invalid, "Missing required parameter: hosts");
  if (given.size() > kMaxHosts)
    return fail(Errc::invalid, fmt::format("Invalid argument: hosts has more than {} entries", kMaxHosts));
  Targets targets;
  for (const auto& text : given) {
    auto target = egress::parse_target(text);
    if (!target) return fail(Errc::invalid, fmt::format("Invalid argument: hosts: {}", target.error().message));
    if (std::ranges::find(targets, *target) == targets.end()) targets.push_back(std::move(*target));
  }
  return targets;
}

std::string list_of(const Targets& targets) {
  std::string text;
  for (const auto& target : targets) text += (text.empty() ? "" : ", ") + egress::text_of(target);
  return text;
}

Question question_about(const Targets& targets) {
  auto allow = property("boolean", "Allow it");
  allow["default"] = false;
  return cove::mcp::elicitation("allow", fmt::format("May the code in this session connect to {}?", list_of(targets)),
                                schema({{"allow", std::move(allow)}}, {"allow"}));
}

// What a new session has.
egress::Policy usual_policy(const config::Network& network) {
  egress::Policy policy;
  policy.mode = network.mode == config::NetworkMode::none         ? egress::Mode::none
                : network.mode == config::NetworkMode::everything ? egress::Mode::open
                                                                  : egress::Mode::allow;
  for (const auto& text : network.allow) {
    if (auto target = egress::parse_target(text)) policy.allow.push_back(std::move(*target));
  }
  return policy;
}

// Of `wanted` what the policy does not list yet.
Targets missing_in(const egress::Policy& policy, const Targets& wanted) {
  Targets missing;
  for (const auto& target : wanted) {
    const bool listed = std::ranges::find(policy.allow, target) != policy.allow.end();
    const bool open = policy.mode == egress::Mode::open && target.kind != egress::Target::Kind::network;
    if (!listed && !open) missing.push_back(target);
  }
  return missing;
}

// What the call is answered with at once, or nothing: the user agreed, or the operator's setting does.
Task<std::optional<Or<>>> ask_for(ToolContext& context, Call& call, Targets missing) {
  const auto question = question_about(missing);
  if (call.can_ask(question)) {
    std::vector<Question> questions{question};
    auto asked = co_await call.ask(std::move(questions));
    if (!asked) co_return std::optional<Or<>>(std::move(asked.error()));
    if (cove::mcp::agreed(*asked, "allow")) co_return std::nullopt;
    Or<> declined =
        tool_error(fmt::format("The user did not allow connections to {}. Continue without them.", list_of(missing)));
    co_return std::optional<Or<>>(std::move(declined));
  }
  if (context.services.config()->mcp.grant_network) co_return std::nullopt;
  Or<> refused = tool_error(
      fmt::format("Connections to {} are not allowed: this client cannot ask its user, so the server's own setting "
                  "holds. The server's operator can allow them with `cove network SESSION --allow HOST`, or for every "
                  "session with network.allow in the configuration.",
                  list_of(missing)));
  co_return std::optional<Or<>>(std::move(refused));
}

Task<Or<>> allow_network(ToolContext& context, Call& call, json::object arguments) {
  const auto wanted = hosts_argument(arguments);
  if (!wanted) co_return tool_error(wanted.error().message);
  const auto name = text_argument(arguments, "session_id");
  if (!name) co_return tool_error(name.error().message);
  auto& networks = context.services.networks;
  const auto existing = co_await context.sessions.find(call, name->value_or(""), "python");
  auto policy = existing ? networks.policy_of(**existing) : usual_policy(context.services.config()->network);
  auto missing = missing_in(policy, *wanted);
  egress::Policy asked_for;
  asked_for.allow = missing;
  // Nobody is asked for what they could not allow.
  if (const auto may = network::may_have(context.services, principal_of(call), asked_for); !may)
    co_return tool_error(may.error().message);
  if (!missing.empty()) {
    auto over = co_await ask_for(context, call, missing);
    if (over) co_return std::move(*over);
  }
  const auto session = co_await context.sessions.open(call, name->value_or(""), "python");
  if (!session) co_return tool_error(session.error().message);
  // It may have changed while the user thought.
  policy = networks.policy_of(*session->sandbox);
  missing = missing_in(policy, *wanted);
  if (!missing.empty()) {
    if (policy.mode == egress::Mode::none) policy.mode = egress::Mode::allow;
    std::ranges::copy(missing, std::back_inserter(policy.allow));
    if (policy.allow.size() + policy.deny.size() > egress::kMaxRules)
      co_return tool_error(fmt::format("A session may list at most {} hosts.", egress::kMaxRules));
    const auto set = co_await networks.set(session->sandbox, std::move(policy), wire::EgressScope::new_connections,
                                           journal::actor_of(principal_of(call)));
    if (!set) co_return tool_error(set.error().message);
  }
  json::array allowed;
  for (const auto& target : *wanted) allowed.emplace_back(egress::text_of(target));
  co_return answer(
      fmt::format("The code in this session may connect to {}.\nSession: {}", list_of(*wanted), session->id),
      {{"session_id", session->id}, {"allowed", std::move(allowed)}});
}

std::string name_of_refusal(const json::object& one) {
  const auto* host = one.if_contains("host");
  const auto* port = one.if_contains("port");
  const auto name = host != nullptr && host->is_string() ? std::string(host->get_string()) : std::string();
  const auto number = port != nullptr && port->is_int64() ? port->get_int64() : 0;
  return number == 0 ? name : fmt::format("{}:{}", name, number);
}

// What programs say that wanted a network and had none.
bool speaks_of_network(std::string_view text) {
  for (const std::string_view phrase :
       {"Network is unreachable", "Name or service not known", "Temporary failure in name resolution",
        "Could not resolve host", "getaddrinfo ENOTFOUND", "getaddrinfo EAI_AGAIN", "ENETUNREACH",
        "this sandbox has no network"}) {
    if (text.find(phrase) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

Task<std::string> refused_connections(ToolContext& context, std::shared_ptr<sandbox::Sandbox> sandbox,
                                      std::chrono::steady_clock::time_point begun, std::string said) {
  auto& networks = context.services.networks;
  const auto policy = networks.policy_of(*sandbox);
  if (policy.mode == egress::Mode::none) {
    if (!speaks_of_network(said)) co_return std::string();
    co_return "There is no network in this session. allow_network asks the user to allow connections to the hosts that "
              "are needed; install_packages installs Python packages without it";
  }
  const auto inspected = co_await networks.inspect(sandbox);
  const auto* list = inspected ? inspected->if_contains("refused") : nullptr;
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
  std::string names;
  if (list != nullptr && list->is_array()) {
    for (const auto& one : list->get_array()) {
      const auto* ago = one.is_object() ? one.get_object().if_contains("agoMs") : nullptr;
      if (ago == nullptr || !ago->is_int64() || ago->get_int64() > since.count()) continue;
      names += (names.empty() ? "" : ", ") + name_of_refusal(one.get_object());
    }
  }
  if (names.empty() && !speaks_of_network(said)) co_return std::string();
  if (names.empty())
    co_return "The network policy of this session allows only what it lists. allow_network asks the user to allow "
              "more";
  co_return fmt::format(
      "The network policy of this session refused connections to {}. allow_network asks the user to allow them", names);
}

Tool network_tool(const config::Languages& /*languages*/) {
  auto hints = annotations({.idempotent = true});
  hints["openWorldHint"] = true;
  Tool tool;
  tool.definition = {
      {"name", "allow_network"},
      {"title", "Allow network access"},
      {"description",
       "Asks the user to let the code in a session connect to hosts. Sessions begin without network unless the "
       "server's "
       "operator decided otherwise. Name only what is needed. What is allowed stays allowed until the session ends."},
      {"inputSchema", schema({{"hosts", list_of({{"type", "string"}},
                                                "Each a host and a port, such as \"example.com:443\" or "
                                                "\"*.example.org:443\", or an address or network")},
                              {"session_id", session_property()}},
                             {"hosts"})},
      {"outputSchema", schema({{"session_id", property("string", "")},
                               {"allowed", list_of({{"type", "string"}}, "What the session may connect to now")}},
                              {"session_id", "allowed"})},
      {"annotations", std::move(hints)}};
  tool.run = allow_network;
  return tool;
}

}  // namespace cove::doors::mcp
