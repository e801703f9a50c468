#pragma once

#include <string>

#include "base/result.hpp"
#include "config/config.hpp"
#include "outbound/addresses.hpp"
#include "outbound/url.hpp"

namespace cove::doors::workspace {

// A document store as it is asked: with which token, and where what it grants may lie.
struct EfastStore {
  outbound::Url url;
  std::string token;
  outbound::Reach reach;  // of the store itself and of everything that it leads to
};

// The store that a caller names, or the operator's with an empty `url`. The operator's own is trusted: it gets the
// operator's token where the caller brings none, and what it grants may lie at its own host and at
// `workspace.efast_places`. Any other store gets neither, wherever it is. Errc::invalid for what is no address.
Result<EfastStore> efast_store(const std::string& url, const std::string& token, const config::Workspace& config);

}  // namespace cove::doors::workspace
