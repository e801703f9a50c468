#pragma once

#include <string>

#include "base/result.hpp"
#include "config/config.hpp"
#include "outbound/addresses.hpp"
#include "outbound/url.hpp"

namespace cove::doors::workspace {

// A document store: its token, and the hosts that its grants may name.
struct EfastStore {
  outbound::Url url;
  std::string token;
  outbound::Reach reach;  // of the store itself and of everything that it leads to
};

// The store that the caller names, or the operator's for an empty `url`. The operator's store is trusted: it gets the
// operator's token when the caller has none, and its grants may name its own host and `workspace.efast_places`. Any
// other store gets neither. Errc::invalid for an invalid address.
Result<EfastStore> efast_store(const std::string& url, const std::string& token, const config::Workspace& config);

}  // namespace cove::doors::workspace
