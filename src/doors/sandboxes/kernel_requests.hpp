#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/sandboxes/answers.hpp"
#include "sandbox/kernel.hpp"

namespace cove::doors::sandboxes {

// The kernel that a path names.
struct NamedKernel {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  std::shared_ptr<sandbox::Kernel> kernel;
};

enum class Need { to_know, to_speak };

// Another tenant's kernel and a missing one are both Errc::not_found. Errc::conflict when the kernel has to answer
// and its sandbox is paused.
Task<Result<NamedKernel>> find_kernel(Services& services, const http::Request& request, Need need);

// A whole number within the exact range of a double. Absent and null: nullopt.
Result<std::optional<std::int64_t>> whole_field(const boost::json::object& object, std::string_view name,
                                                double least = 0);
// Absent and null: empty.
Result<boost::json::object> object_field(const boost::json::object& object, std::string_view name);
// `code`, a string.
Result<std::string> code_field(const boost::json::object& object);

}  // namespace cove::doors::sandboxes
