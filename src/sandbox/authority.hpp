#pragma once

#include "base/principal.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/registry.hpp"

namespace cove::sandbox {

// The limits of a key. 0: none of its own, the server's apply.
struct Allowance {
  Quotas sandboxes;
  Admission::Share executions;
};

// What a principal may do, as its key in the store says.
class Authority {
 public:
  virtual ~Authority() = default;
  [[nodiscard]] virtual Allowance allowance(const Principal& principal) = 0;
  // Whether it may act for all tenants. On a server without keys everybody may.
  [[nodiscard]] virtual bool operates(const Principal& principal) = 0;
  // Whether a principal that was authenticated earlier still would be.
  [[nodiscard]] virtual bool still_valid(const Principal& principal) = 0;
};

}  // namespace cove::sandbox
