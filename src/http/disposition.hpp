#pragma once

#include <string>
#include <string_view>

namespace cove::http {

// `attachment; filename="…"` for any name: what a header cannot hold is left out of it, and the whole name follows as
// RFC 5987 says.
std::string attachment(std::string_view name);

}  // namespace cove::http
