#pragma once

#include "async/gate.hpp"
#include "async/task_group.hpp"
#include "config/live.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/authority.hpp"
#include "sandbox/registry.hpp"

namespace cove::sandbox {

// The services that every door uses. Borrowed for the server's life.
struct Core {
  Registry& registry;
  Admission& admission;
  Authority& authority;
  const config::Live& config;
  async::Gate& gate;  // entered by work that a shutdown waits for; closed when the server drains
  async::TaskGroup& tasks;

  [[nodiscard]] bool draining() const { return gate.closed(); }
};

}  // namespace cove::sandbox
