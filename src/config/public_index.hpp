#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::config {

// What dependencies.index says for the index that pip itself would ask.
inline constexpr std::string_view kPublicIndex = "public";

// Its URL, as the pip of this host has it: Cove names no index of its own. Errc::not_found where there is no pip.
Result<std::string> public_index();
// The same, from the source that pip keeps it in; empty when it is not there.
std::string index_in(std::string_view source);

}  // namespace cove::config
