#pragma once

#include <string_view>

namespace cove::http {

// The media type for the extension of a path, in lower case; application/octet-stream for an unknown one.
std::string_view mime_of(std::string_view path);

}  // namespace cove::http
