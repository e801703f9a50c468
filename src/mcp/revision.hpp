#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cove::mcp {

// The published revisions of the protocol, oldest first. Before the last one a client says `initialize` and the server
// remembers it ("legacy"); in the last every request carries all that is needed ("modern").
enum class Revision : std::uint8_t { v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28 };

inline constexpr std::array<std::string_view, 5> kRevisionNames{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25",
                                                                "2026-07-28"};
inline constexpr Revision kOldest = Revision::v2024_11_05;
inline constexpr Revision kNewestLegacy = Revision::v2025_11_25;
inline constexpr Revision kModern = Revision::v2026_07_28;

constexpr std::string_view name_of(Revision revision) {
  return kRevisionNames.at(static_cast<std::size_t>(revision));
}
constexpr std::optional<Revision> find_revision(std::string_view name) {
  for (std::size_t i = 0; i < kRevisionNames.size(); ++i) {
    if (kRevisionNames.at(i) == name) return static_cast<Revision>(i);
  }
  return std::nullopt;
}

// What `initialize` is answered with, given what the client asked for.
constexpr Revision negotiate(std::optional<std::string_view> asked) {
  if (!asked || *asked == "2024-10-07") return kOldest;
  const auto known = find_revision(*asked);
  return known && *known <= kNewestLegacy ? *known : kNewestLegacy;
}

constexpr bool modern(Revision revision) {
  return revision == kModern;
}
// Tools' annotations, audio, words in progress.
constexpr bool has_annotations(Revision revision) {
  return revision >= Revision::v2025_03_26;
}
// Titles, output schemas, structured content, links to resources.
constexpr bool has_structure(Revision revision) {
  return revision >= Revision::v2025_06_18;
}
constexpr bool has_batches(Revision revision) {
  return revision == Revision::v2025_03_26;
}
// An answer to what could not be read has no id, where older ones have a null.
constexpr bool omits_unknown_ids(Revision revision) {
  return revision >= Revision::v2025_11_25;
}

}  // namespace cove::mcp
