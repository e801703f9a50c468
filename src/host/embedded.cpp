#include "host/embedded.hpp"

#include <array>
#include <cstdint>
#include <cstring>

// Defined by cove_embed() in CMakeLists.txt.
extern "C" {
extern const char cove_embedded_connect[];
extern const char cove_embedded_connect_end[];
extern const char cove_embedded_files[];
extern const char cove_embedded_files_end[];
extern const char cove_embedded_init[];
extern const char cove_embedded_init_end[];
extern const char cove_embedded_javarun[];
extern const char cove_embedded_javarun_end[];
extern const char cove_embedded_javascript[];
extern const char cove_embedded_javascript_end[];
extern const char cove_embedded_phprun[];
extern const char cove_embedded_phprun_end[];
extern const char cove_embedded_python[];
extern const char cove_embedded_python_end[];
extern const char cove_embedded_zygote[];
extern const char cove_embedded_zygote_end[];
extern const char cove_embedded_stand_in_facts[];
extern const char cove_embedded_stand_in_facts_end[];
extern const char cove_embedded_stand_in_network[];
extern const char cove_embedded_stand_in_network_end[];
extern const char cove_embedded_stand_in_runtimes[];
extern const char cove_embedded_stand_in_runtimes_end[];
extern const char cove_embedded_stand_in_packages[];
extern const char cove_embedded_stand_in_packages_end[];
extern const char cove_embedded_tsx[];
extern const char cove_embedded_tsx_end[];
}

namespace cove::host {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

void add_tree(std::vector<EmbeddedFile>& files, std::string_view directory, std::string_view rest) {
  while (!rest.empty()) {
    std::uint32_t sizes[2];
    std::memcpy(sizes, rest.data(), sizeof sizes);
    rest.remove_prefix(sizeof sizes);
    files.push_back(
        {.directory = directory, .path = rest.substr(0, sizes[0]), .content = rest.substr(sizes[0], sizes[1])});
    rest.remove_prefix(sizes[0] + sizes[1]);
  }
}

}  // namespace

std::string_view embedded_init() {
  return between(cove_embedded_init, cove_embedded_init_end);
}

std::string_view embedded_zygote() {
  return between(cove_embedded_zygote, cove_embedded_zygote_end);
}

std::vector<EmbeddedFile> embedded_runtimes() {
  std::vector<EmbeddedFile> files;
  add_tree(files, "python", between(cove_embedded_python, cove_embedded_python_end));
  add_tree(files, "javascript", between(cove_embedded_javascript, cove_embedded_javascript_end));
  return files;
}

std::span<const EmbeddedTool> embedded_tools() {
  static const std::array<EmbeddedTool, 9> tools{
      {{.name = "connect", .content = between(cove_embedded_connect, cove_embedded_connect_end)},
       {.name = "files", .content = between(cove_embedded_files, cove_embedded_files_end)},
       {.name = "javarun", .content = between(cove_embedded_javarun, cove_embedded_javarun_end)},
       {.name = "phprun", .content = between(cove_embedded_phprun, cove_embedded_phprun_end)},
       {.name = "stand-in-facts", .content = between(cove_embedded_stand_in_facts, cove_embedded_stand_in_facts_end)},
       {.name = "stand-in-network",
        .content = between(cove_embedded_stand_in_network, cove_embedded_stand_in_network_end)},
       {.name = "stand-in-runtimes",
        .content = between(cove_embedded_stand_in_runtimes, cove_embedded_stand_in_runtimes_end)},
       {.name = "stand-in-packages",
        .content = between(cove_embedded_stand_in_packages, cove_embedded_stand_in_packages_end)},
       {.name = "tsx", .content = between(cove_embedded_tsx, cove_embedded_tsx_end)}}};
  return tools;
}

}  // namespace cove::host
