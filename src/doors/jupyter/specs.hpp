#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string_view>

#include "sandbox/kernel.hpp"

namespace cove::doors::jupyter {

inline constexpr std::string_view kDefaultSpec = "python3";

// The name of a kernel specification.
std::string_view spec_name(sandbox::KernelLanguage language);
// By that name or an alias such as "python"; nullopt for none.
std::optional<sandbox::KernelLanguage> find_spec(std::string_view name);
// {"name", "spec", "resources"}
boost::json::object spec_json(sandbox::KernelLanguage language);
// {"default", "kernelspecs"}
boost::json::object specs_json();
// The content of a kernel_info_reply.
boost::json::object kernel_info(const sandbox::Kernel& kernel);

}  // namespace cove::doors::jupyter
