#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace cove::host {

// What the one binary carries inside.
std::string_view embedded_init();  // the cove-init executable

struct EmbeddedTool {
  std::string_view name;  // in /cove/bin of every sandbox
  std::string_view content;
};
std::span<const EmbeddedTool> embedded_tools();
std::string_view embedded_zygote();  // the zygote's native half, a shared library

struct EmbeddedFile {
  std::string_view directory;  // below /cove of every sandbox: "python"
  std::string_view path;       // below that
  std::string_view content;
};
// What interpreters inside are driven by.
std::vector<EmbeddedFile> embedded_runtimes();

}  // namespace cove::host
