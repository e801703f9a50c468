#pragma once

#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::sandbox {

// Stdin, stdout, stderr and the channel of a forked interpreter: the ends for init, and those for the newborn.
struct Streams {
  std::vector<UniqueFd> init;
  std::vector<UniqueFd> child;
};

Result<Streams> make_streams();

}  // namespace cove::sandbox
