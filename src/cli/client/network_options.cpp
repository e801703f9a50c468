#include "cli/client/network_options.hpp"

namespace cove::cli {

namespace json = boost::json;

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
  command.add_flag("--learn", options.learn, "Allow everything public, and propose a list of what was used")
      ->group("Network");
}

Result<json::object> policy_of(const NetworkOptions& options) {
  json::object policy{{"mode", !options.mode.empty() ? options.mode : options.learn ? "public" : "allow"}};
  if (!options.allow.empty()) policy["allow"] = json::value_from(options.allow);
  if (!options.deny.empty()) policy["deny"] = json::value_from(options.deny);
  if (options.learn) policy["learn"] = true;
  return policy;
}

}  // namespace cove::cli
