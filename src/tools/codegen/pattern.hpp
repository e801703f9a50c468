#pragma once

#include <string_view>

namespace cove::tools::codegen {

// Whether a regular expression of a schema means the same to Python's and Rust's engines and compiles in both within
// little space: literals, classes, groups, anchors, and repetitions that are not nested. A model with any other could
// not be imported, so it goes without: the broker checks arguments too.
bool common_pattern(std::string_view pattern);

}  // namespace cove::tools::codegen
