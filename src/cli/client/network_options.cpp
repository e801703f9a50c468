#include "cli/client/network_options.hpp"

#include <algorithm>

namespace cove::cli {
namespace {

namespace json = boost::json;

// "api.example.com:443 authorization: Bearer …", with ports or without.
Result<json::object> header_rule(const std::string& text) {
  const auto blank = text.find(' ');
  const auto colon = text.find(':', blank == std::string::npos ? 0 : blank);
  const auto host_end = std::min(text.find(':'), blank);
  if (blank == std::string::npos || colon == std::string::npos || text.size() < colon + 2)
    return fail(Errc::invalid,
                "--header must be 'HOST[:PORTS] NAME: VALUE', such as 'api.example.com:443 authorization: Bearer …'");
  const auto value = text.find_first_not_of(' ', colon + 1);
  if (value == std::string::npos) return fail(Errc::invalid, "--header has no value after the colon");
  json::object rule{{"host", text.substr(0, host_end)},
                    {"header", text.substr(blank + 1, colon - blank - 1)},
                    {"value", text.substr(value)}};
  if (host_end < blank) rule["ports"] = text.substr(host_end + 1, blank - host_end - 1);
  return rule;
}

}  // namespace

void describe(App& command, NetworkOptions& options) {
  command
      .add_option("--net", options.mode, "Way out: none, allow (what --allow lists) or public (every public address)")
      ->group("Network");
  again(command.add_option("--allow", options.allow,
                           "Name, address or network that may be connected to, such as example.com:443, *.example.com "
                           "or 192.0.2.0/24; repeatable"))
      ->group("Network");
  again(command.add_option("--deny", options.deny, "The same for what may not, whatever else allows it; repeatable"))
      ->group("Network");
  again(command.add_option(
            "--header", options.headers,
            "'HOST[:PORTS] NAME: VALUE': a header that is added outside of the sandbox to requests for this host; "
            "repeatable"))
      ->group("Network");
  command.add_flag("--learn", options.learn, "Allow everything public, and propose a list of what was used")
      ->group("Network");
}

Result<json::object> policy_of(const NetworkOptions& options) {
  if (options.mode == "none" && !options.allow.empty()) return fail(Errc::invalid, "--allow: contradicts --net none");
  if (options.given() && options.mode.empty() && options.allow.empty() && !options.learn)
    return fail(Errc::invalid, fmt::format("{} alone would allow nothing: add --net public, or --allow",
                                           options.deny.empty() ? "--header" : "--deny"));
  json::object policy{{"mode", !options.mode.empty() ? options.mode : options.learn ? "public" : "allow"}};
  if (!options.allow.empty()) policy["allow"] = json::value_from(options.allow);
  if (!options.deny.empty()) policy["deny"] = json::value_from(options.deny);
  json::array headers;
  for (const auto& text : options.headers) {
    COVE_TRY(auto rule, header_rule(text));
    headers.push_back(std::move(rule));
  }
  if (!headers.empty()) policy["headers"] = std::move(headers);
  if (options.learn) policy["learn"] = true;
  return policy;
}

}  // namespace cove::cli
