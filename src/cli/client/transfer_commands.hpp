#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/client/client_options.hpp"

namespace cove::cli {

// cp, upload, download.
void add_transfer_commands(App& app, Commands& commands);

// "ID:PATH", one side of a copy. None for a local path; a name with a colon is local if it starts with ./ or /, or has
// a slash before the colon.
struct RemotePath {
  std::string id;
  std::string path;  // "" means /workspace
};
std::optional<RemotePath> remote_path(std::string_view text);

}  // namespace cove::cli
