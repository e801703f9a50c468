#pragma once

#include <string_view>

namespace cove {

// Names that become arguments of another program or parts of a path: each is checked here first.

// A package name by Debian's policy, and nothing that apt would read as more than a name: no version, no release, no
// pattern, no "-" at the end, which would remove the package.
bool is_package_name(std::string_view name);
// A Python module: "numpy", "matplotlib.pyplot".
bool is_module_name(std::string_view name);
// 1 to 64 of a-z, 0-9, "-", "_" and ".", beginning with a letter or digit.
bool is_template_name(std::string_view name);

}  // namespace cove
