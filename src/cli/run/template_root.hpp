#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::cli {

// What a run in a template needs to know of it.
struct TemplateRoot {
  std::uint32_t number = 0;            // 0: the host's root
  std::vector<std::string> variables;  // "K=V", its defaults
};

// Finds a template that a server with this state directory has built. Errc::not_found names those that are there.
Result<TemplateRoot> find_template(const std::string& state_dir, const std::string& name);

}  // namespace cove::cli
