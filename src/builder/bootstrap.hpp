#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::builder {

// How a root is made in `target` out of Debian's packages: the words of a command. The release and the sources are the
// host's own. Errc::unsupported when the host has no apt sources or not the tool.
Result<std::vector<std::string>> bootstrap_command(const std::string& target, const std::vector<std::string>& packages);

// Replaces the calling process, which is inside. Output goes to `log`. Returns an exit status when it could not.
int run_bootstrap(const std::vector<std::string>& command, int log);

}  // namespace cove::builder
