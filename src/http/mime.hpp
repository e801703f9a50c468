#pragma once

#include <string_view>

namespace cove::http {

// The media type that the ending of a path says, in lower case; application/octet-stream for one that is not known.
std::string_view mime_of(std::string_view path);

}  // namespace cove::http
