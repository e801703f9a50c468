#pragma once

#include <csignal>

namespace cove::files {

// Set by the signals that ask the program to end, so that what it had begun is taken back before it does.
inline volatile std::sig_atomic_t stop_requested = 0;

}  // namespace cove::files
