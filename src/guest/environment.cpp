#include "guest/environment.hpp"

namespace cove::guest {

std::vector<std::string> base_environment() {
  return {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/cove/bin",
          "HOME=/home/cove",
          "USER=cove",
          "LOGNAME=cove",
          "LANG=C.UTF-8",
          "TMPDIR=/tmp",
          "SHELL=/bin/bash"};
}

boost::json::object first_message(std::string_view mode, const std::vector<std::string>& environment) {
  boost::json::object variables;
  for (const auto& variable : environment) {
    const auto equals = variable.find('=');
    variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return {{"op", "begin"}, {"mode", mode}, {"env", std::move(variables)}, {"cwd", "/workspace"}};
}

void set_variable(std::vector<std::string>& environment, std::string_view variable) {
  const auto name = variable.substr(0, variable.find('=') + 1);
  std::erase_if(environment, [&](const std::string& other) { return other.starts_with(name); });
  environment.emplace_back(variable);
}

}  // namespace cove::guest
