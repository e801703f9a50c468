#pragma once

#include <string_view>

namespace cove {

// Names that become words of another program's command line or parts of a path: what is none of these never does.

// As Debian's policy writes package names, and nothing that apt would read as more than a name: no version, no release,
// no pattern, no "-" at the end, which would remove it.
bool is_package_name(std::string_view name);
// Of a Python module: "numpy", "matplotlib.pyplot".
bool is_module_name(std::string_view name);
// 1 to 64 of a-z, 0-9, "-", "_" and ".", beginning with a letter or digit.
bool is_template_name(std::string_view name);

}  // namespace cove
