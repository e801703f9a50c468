#pragma once

#include <span>
#include <string_view>

namespace cove::keeper {

// What the one binary carries inside.
std::string_view embedded_init();  // the cove-init executable

struct EmbeddedTool {
  std::string_view name;  // in /cove/bin of every sandbox
  std::string_view content;
};
std::span<const EmbeddedTool> embedded_tools();

}  // namespace cove::keeper
