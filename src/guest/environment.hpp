#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cove::guest {

// "K=V", what every process in a sandbox starts with.
std::vector<std::string> base_environment();
// Puts "K=V" in, in place of an earlier K.
void set_variable(std::vector<std::string>& environment, std::string_view variable);
// What a Python of the runtime is told first: what it is to become, and its environment.
boost::json::object first_message(std::string_view mode, const std::vector<std::string>& environment);

}  // namespace cove::guest
