#pragma once

namespace cove::sys {

// Brings up `lo` in this network namespace. For code between fork and exec; false with errno set.
bool bring_up_loopback() noexcept;

}  // namespace cove::sys
