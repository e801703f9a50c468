#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fastapi/checker.hpp"
#include "http/request.hpp"

namespace cove::doors::resources {

// A path of a request as one below the working directory, "" for that directory itself. Nothing when it is absolute or
// climbs out; what links do is seen inside the sandbox.
std::optional<std::string> relative_path(std::string_view path);

// The member that the file helper found fault with, of its message ("member 'a' …", "link 'a' …"); "" when it names
// none.
std::string named_member(std::string_view message);

// The modules that a query asks for.
std::variant<std::vector<std::string>, fastapi::Problems> parse_modules(const http::Request& request);

}  // namespace cove::doors::resources
