#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::files {

// A JSON string with its quotes. Always valid: what is not UTF-8 becomes U+FFFD, control characters are escaped.
std::string json_string(std::string_view bytes);

// {"code": …, "error": …} as the front reads it from stderr. The codes: invalid, not_found, denied, exists, too_large,
// disk_full, io.
std::string error_json(const Error& error);
std::string_view error_code(const Error& error);

}  // namespace cove::files
