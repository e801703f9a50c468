#include "cli/client/network_command.hpp"

#include <memory>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "cli/client/network_options.hpp"
#include "cli/client/table.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::sandbox_target;

struct NetworkArguments : ClientOptions {
  std::string id;
  NetworkOptions options;
  bool log = false;
  bool check = false;
};

std::string list_of(const json::object& policy, std::string_view name) {
  std::string text;
  const auto* list = policy.if_contains(name);
  if (list == nullptr || !list->is_array()) return text;
  for (const auto& one : list->as_array()) {
    if (one.is_string()) text += (text.empty() ? "" : ", ") + std::string(one.as_string());
  }
  return text;
}

Result<> show_policy(const json::object& policy) {
  COVE_CHECK(put_line(fmt::format("mode      {}", printable(text_of(policy, "mode")))));
  for (const auto* name : {"allow", "deny", "proposed"}) {
    if (const auto list = list_of(policy, name); !list.empty())
      COVE_CHECK(put_line(fmt::format("{:<9} {}", name, printable(list))));
  }
  if (policy.if_contains("proposed") != nullptr && list_of(policy, "proposed").empty())
    COVE_CHECK(put_line("proposed  nothing yet"));
  if (const auto* headers = policy.if_contains("headers"); headers != nullptr && headers->is_array()) {
    for (const auto& one : headers->as_array()) {
      if (!one.is_object()) continue;
      const auto ports = text_of(one.as_object(), "ports");
      COVE_CHECK(put_line(fmt::format("header    {}{} {}", printable(text_of(one.as_object(), "host")),
                                      ports.empty() ? "" : ":" + printable(ports),
                                      printable(text_of(one.as_object(), "header")))));
    }
  }
  if (const auto proxy = text_of(policy, "proxy"); !proxy.empty())
    COVE_CHECK(put_line(fmt::format("proxy     {} (inside)", printable(proxy))));
  const auto* connections = policy.if_contains("connections");
  const auto* bytes = policy.if_contains("bytes");
  if (connections == nullptr || !connections->is_object() || bytes == nullptr || !bytes->is_object()) return {};
  const auto& counts = connections->get_object();
  const auto size = [bytes](std::string_view name) {
    return format_size(static_cast<std::uint64_t>(number_of(bytes->get_object(), name)));
  };
  return put_line(fmt::format("used      connections {}, open {}, refused {}; bytes {} in, {} out",
                              number_of(counts, "total"), number_of(counts, "open"), number_of(counts, "refused"),
                              size("in"), size("out")));
}

Result<> show_decisions(const NetworkArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer,
           client.ask({.method = "GET", .target = sandbox_target(arguments.id).text() + "/network/log?limit=1000"}));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto body, object_of(answer.body));
  Table table({"TIME", "KIND", "NAME", "ADDRESS", "PORT", "VERDICT", "RULE", "IN", "OUT"});
  if (const auto* records = body.if_contains("records"); records != nullptr && records->is_array()) {
    for (const auto& one : records->as_array()) {
      if (!one.is_object()) continue;
      const auto& record = one.as_object();
      const auto port = number_of(record, "port");
      // Of a connection that is over the log has both its decision and its end, with the bytes.
      const bool over = text_of(record, "event") == "closed";
      table.add({iso_time(number_of(record, "time")), text_of(record, "kind"), text_of(record, "name"),
                 text_of(record, "address"), port > 0 ? std::to_string(port) : "",
                 over ? "ended" : text_of(record, "verdict"), text_of(record, over ? "error" : "rule"),
                 over ? format_size(static_cast<std::uint64_t>(number_of(record, "bytes_in"))) : "",
                 over ? format_size(static_cast<std::uint64_t>(number_of(record, "bytes_out"))) : ""});
    }
  }
  return put_line(table.text());
}

Result<> network(const NetworkArguments& arguments) {
  if (arguments.check && !arguments.options.given())
    return fail(Errc::invalid, "--check belongs to a new policy: add --net, --allow or --learn");
  if (arguments.log && arguments.options.given())
    return fail(Errc::invalid, "--log shows what was decided; it cannot be combined with a new policy");
  if (arguments.log) return show_decisions(arguments);
  const auto target = sandbox_target(arguments.id).text() + "/network";
  COVE_TRY(auto client, connect(arguments));
  client::Request request{.method = "GET", .target = target};
  if (arguments.options.given()) {
    COVE_TRY(auto policy, policy_of(arguments.options));
    if (arguments.check) policy["existing"] = "check";
    request = json_request("PUT", target, policy);
  }
  COVE_TRY(const auto answer, client.ask(request));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto policy, object_of(answer.body));
  return show_policy(policy);
}

}  // namespace

void add_network_command(App& app, Commands& commands) {
  auto* command = app.add_subcommand("network", "Show or change the way out of a sandbox");
  const auto a = std::make_shared<NetworkArguments>();
  command->add_option("id", a->id, "Sandbox id")->required();
  describe(*command, a->options);
  command->add_flag("--check", a->check, "End open connections that the new policy does not allow")->group("Network");
  command->add_flag("--log", a->log, "Show what was decided about names and connections");
  command->footer(
      "Without flags the policy is shown. A new one replaces the old one as a whole; if it cannot be set, the old one "
      "stays.\n"
      "Examples:\n  cove network demo --allow 'example.com:443' --allow '*.example.org'\n  cove network demo --net "
      "public --deny 'ads.example.com'\n"
      "  cove network demo --net none\n  cove network demo --log");
  describe(*command, *a, "ID");
  commands.push_back({command, [a](const AfterDashes&) { return told(*a, network(*a)); }});
}

}  // namespace cove::cli
