#pragma once

#include <functional>

#include "base/principal.hpp"

namespace cove::run {

// Who wants something run.
struct Caller {
  Principal principal;
  // Polled while something is waited for: true when nobody wants the result any more.
  std::function<bool()> gone = [] { return false; };
};

}  // namespace cove::run
