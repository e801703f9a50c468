#pragma once

#include <boost/json.hpp>

#include "base/result.hpp"
#include "cli/client/client_options.hpp"

namespace cove::cli {

// The way out of a sandbox, as flags.
struct NetworkOptions {
  std::string mode;
  Words allow, deny, headers;
  bool learn = false;

  [[nodiscard]] bool given() const {
    return !mode.empty() || !allow.empty() || !deny.empty() || !headers.empty() || learn;
  }
};

void describe(App& command, NetworkOptions& options);
// The `network` of a request. --allow alone means the mode allow. Errc::invalid names the option.
Result<boost::json::object> policy_of(const NetworkOptions& options);

}  // namespace cove::cli
