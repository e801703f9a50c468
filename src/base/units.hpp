#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove {

// "512M", "1Gi", "1.5g", "65536": binary multiples, whatever the spelling; a bare number is bytes.
Result<std::uint64_t> parse_size(std::string_view text);

// "500ms", "30s", "2m", "1h30m", "1.5s"; a bare number is seconds.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// "512M", "1.5G", "900": the shortest form that a person reads at a glance.
std::string format_size(std::uint64_t bytes);
std::string format_duration(std::chrono::milliseconds duration);

}  // namespace cove
