#pragma once

#include <boost/json.hpp>

#include "base/principal.hpp"
#include "base/result.hpp"
#include "egress/policy.hpp"
#include "sandbox/core.hpp"

namespace cove::network {

// Whether somebody may give a sandbox of theirs this policy. Errc::denied: it lists a private address, and neither is
// the principal an operator nor does `network.reach` list it.
Result<> may_have(const sandbox::Core& core, const Principal& principal, const egress::Policy& policy);
// The policy that a request asks for, if its principal may have it. Values of headers are never shown: one that is left
// out stays what it was `before`. Errc::invalid names the field.
Result<egress::Policy> requested_policy(const sandbox::Core& core, const Principal& principal,
                                        boost::json::value requested, const egress::Policy& before = {});
// As the text that CreateRequest::network_json is.
std::string text_of(const egress::Policy& policy);

}  // namespace cove::network
