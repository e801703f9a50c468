#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "doctor/check.hpp"

namespace cove::doctor {

enum class Colour : std::uint8_t { none, ansi };

// Whether everything that the default profile needs is there: no check is `fail`.
bool enforced(std::span<const Check> checks);

// For people: no line is longer than 100 columns. Ends with what it all means in one line.
std::string table(std::span<const Check> checks, Colour colour);
// For programs: {"enforced", "cannot": [ids], "warnings", "checks": [{id, title, status, found, consequence, fix}]}.
std::string to_json(std::span<const Check> checks);

}  // namespace cove::doctor
