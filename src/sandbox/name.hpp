#pragma once

#include <string>

#include "base/result.hpp"

namespace cove::sandbox {

// What a caller may call a sandbox: 1–255 bytes of UTF-8 without control bytes, not "." or "..". Errc::invalid says
// what is wrong.
Result<std::string> checked_name(const std::string& name);

}  // namespace cove::sandbox
