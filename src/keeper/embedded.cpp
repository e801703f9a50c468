#include "keeper/embedded.hpp"

#include <array>
#include <cstdint>
#include <cstring>

// Defined by cove_embed() in CMakeLists.txt.
extern "C" {
extern const char cove_embedded_files[];
extern const char cove_embedded_files_end[];
extern const char cove_embedded_init[];
extern const char cove_embedded_init_end[];
extern const char cove_embedded_python[];
extern const char cove_embedded_python_end[];
extern const char cove_embedded_zygote[];
extern const char cove_embedded_zygote_end[];
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

std::string_view embedded_zygote() {
  return between(cove_embedded_zygote, cove_embedded_zygote_end);
}

std::vector<EmbeddedFile> embedded_python() {
  std::vector<EmbeddedFile> files;
  for (auto rest = between(cove_embedded_python, cove_embedded_python_end); !rest.empty();) {
    std::uint32_t sizes[2];
    std::memcpy(sizes, rest.data(), sizeof sizes);
    rest.remove_prefix(sizeof sizes);
    files.push_back({.path = rest.substr(0, sizes[0]), .content = rest.substr(sizes[0], sizes[1])});
    rest.remove_prefix(sizes[0] + sizes[1]);
  }
  return files;
}

std::span<const EmbeddedTool> embedded_tools() {
  static const std::array<EmbeddedTool, 2> tools{
      {{.name = "files", .content = between(cove_embedded_files, cove_embedded_files_end)},
       {.name = "tsx", .content = between(cove_embedded_tsx, cove_embedded_tsx_end)}}};
  return tools;
}

}  // namespace cove::keeper
