#pragma once

#include <string>

#include "base/result.hpp"
#include "files/tree.hpp"

namespace cove::files {

// Changes in a directory (recursive: and below it), or of a file, as lines of JSON on `out_fd`: first {"type":"ready"},
// then {"type", "path"} with created, modified, deleted, moved (and "to") or overflow. Something moved in is created,
// moved out is deleted. Ends when `in_fd` is closed by its other side, the path is gone, or nobody reads any more.
// Errc::over_limit when the sandbox may not have so many watches.
Result<> watch(const std::string& path, Recursive recursive, int in_fd, int out_fd);

}  // namespace cove::files
