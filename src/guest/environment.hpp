#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cove::guest {

// What a sandbox may use, as far as the programs inside size themselves by it.
struct Share {
  std::uint64_t memory_bytes = 0;
  std::uint32_t cpu_millis = 0;
  std::uint32_t pids = 0;
};

// "K=V", what every process in a sandbox starts with.
std::vector<std::string> base_environment();
// The same, and what tells runtimes and the stand-ins (languages/stand-ins) how large the sandbox is.
std::vector<std::string> base_environment(const Share& share);
// Puts "K=V" in, in place of an earlier K. A caller's NODE_OPTIONS stands behind ours: node takes the last of two.
void set_variable(std::vector<std::string>& environment, std::string_view variable);
// What a Python of the runtime is told first: what it is to become, and its environment.
boost::json::object first_message(std::string_view mode, const std::vector<std::string>& environment,
                                  std::string_view directory = "/workspace");

}  // namespace cove::guest
