#include "journal/act.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace cove::journal {
namespace {

constexpr std::size_t kShownBytes = 16U << 10;
constexpr auto kKinds =
    std::to_array<std::string_view>({kind::kLifecycle, kind::kCommand, kind::kProgram, kind::kCell, kind::kKernel,
                                     kind::kFile, kind::kPackages, kind::kNetwork, kind::kTool});

}  // namespace

bool is_kind(std::string_view name) {
  return std::ranges::find(kKinds, name) != kKinds.end();
}

std::string kinds() {
  return fmt::format("{}", fmt::join(kKinds, ", "));
}

std::string first_line(std::string_view code) {
  while (!code.empty()) {
    const auto line = take_until(code, '\n');
    const auto from = line.find_first_not_of(" \t\r");
    if (from != std::string_view::npos) return std::string(line.substr(from));
  }
  return {};
}

std::string excerpt(std::string_view code) {
  if (code.size() <= kShownBytes) return std::string(code);
  const auto kept = code.substr(0, kShownBytes);
  return fmt::format("{}\n… {} bytes in all", kept.substr(0, kept.size() - unfinished_utf8(kept)), code.size());
}

Actor actor_of(const Principal& principal) {
  return {.door = principal.door, .client = principal.client, .key_id = principal.key_id};
}

}  // namespace cove::journal
