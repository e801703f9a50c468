#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cove::sandbox {

// "K=V", what every process in a sandbox starts with.
std::vector<std::string> base_environment();
// Puts "K=V" in, in place of an earlier K.
void set_variable(std::vector<std::string>& environment, std::string_view variable);

}  // namespace cove::sandbox
