#include "keeper/embedded.hpp"

#include <array>

// Defined by cove_embed() in CMakeLists.txt.
extern "C" {
extern const char cove_embedded_files[];
extern const char cove_embedded_files_end[];
extern const char cove_embedded_init[];
extern const char cove_embedded_init_end[];
extern const char cove_embedded_tsx[];
extern const char cove_embedded_tsx_end[];
}

namespace cove::keeper {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string_view embedded_init() {
  return between(cove_embedded_init, cove_embedded_init_end);
}

std::span<const EmbeddedTool> embedded_tools() {
  static const std::array<EmbeddedTool, 2> tools{
      {{.name = "files", .content = between(cove_embedded_files, cove_embedded_files_end)},
       {.name = "tsx", .content = between(cove_embedded_tsx, cove_embedded_tsx_end)}}};
  return tools;
}

}  // namespace cove::keeper
