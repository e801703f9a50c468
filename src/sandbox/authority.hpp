#pragma once

#include "base/principal.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/registry.hpp"

namespace cove::sandbox {

// What a key allows its tenant; 0 anywhere: no limit of its own, the server's apply.
struct Allowance {
  Quotas sandboxes;
  Admission::Share executions;
};

// Who may do what. The keys of the store say so.
class Authority {
 public:
  virtual ~Authority() = default;
  [[nodiscard]] virtual Allowance allowance(const Principal& principal) = 0;
  // Whether it may do what concerns every tenant. Everybody may on a server without keys.
  [[nodiscard]] virtual bool operates(const Principal& principal) = 0;
  // Whether a principal that was let in once still would be.
  [[nodiscard]] virtual bool still_valid(const Principal& principal) = 0;
};

}  // namespace cove::sandbox
