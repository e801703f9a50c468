#include "doors/workspace/listing.hpp"

namespace cove::doors::workspace {

Result<std::vector<ListedFile>> regular_files(const sandbox::Listing& listing) {
  std::vector<ListedFile> files;
  for (const auto& entry : listing.entries) {
    COVE_TRY(auto path, sandbox::workspace_relative(entry.path));
    if (entry.type == "file") files.push_back({.path = std::move(path), .size = entry.size, .time = entry.modified});
  }
  return files;
}

}  // namespace cove::doors::workspace
