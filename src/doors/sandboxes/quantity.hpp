#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace cove::doors::sandboxes {

// A Kubernetes quantity: a decimal number and m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi. In thousandths, rounded up.
Result<std::uint64_t> parse_quantity_millis(std::string_view text);

}  // namespace cove::doors::sandboxes
