#pragma once

#include <functional>

#include "base/principal.hpp"

namespace cove::run {

// Who asked for a run.
struct Caller {
  Principal principal;
  // Polled during waits: true when the caller no longer wants the result.
  std::function<bool()> gone = [] { return false; };
};

}  // namespace cove::run
