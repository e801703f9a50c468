#include "sandbox/environment.hpp"

namespace cove::sandbox {

std::vector<std::string> base_environment() {
  return {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/cove/bin",
          "HOME=/home/cove",
          "USER=cove",
          "LOGNAME=cove",
          "LANG=C.UTF-8",
          "TMPDIR=/tmp",
          "SHELL=/bin/bash"};
}

void set_variable(std::vector<std::string>& environment, std::string_view variable) {
  const auto name = variable.substr(0, variable.find('=') + 1);
  std::erase_if(environment, [&](const std::string& other) { return other.starts_with(name); });
  environment.emplace_back(variable);
}

}  // namespace cove::sandbox
