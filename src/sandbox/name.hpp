#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::sandbox {

// What a caller may call a sandbox: 1–255 bytes of UTF-8 without control bytes, not "." or "..". Errc::invalid says
// what is wrong.
Result<std::string> checked_name(const std::string& name);

// What callers call a process: "p7". Errc::not_found for what is no such name.
std::string process_id(std::uint32_t number);
Result<std::uint32_t> process_number(std::string_view id);

}  // namespace cove::sandbox
