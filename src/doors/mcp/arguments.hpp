#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/languages.hpp"

namespace cove::doors::mcp {

// The arguments of a call, checked for their types. Errc::invalid names a wrong one. Missing and null: nullopt, or
// the empty value.
Result<std::optional<std::string>> text_argument(const boost::json::object& arguments, std::string_view name);
Result<std::string> required_text(const boost::json::object& arguments, std::string_view name);
Result<bool> flag_argument(const boost::json::object& arguments, std::string_view name);
// Also a string that is a number.
Result<std::optional<double>> number_argument(const boost::json::object& arguments, std::string_view name);
// A number greater than 0.
Result<std::optional<double>> seconds_argument(const boost::json::object& arguments, std::string_view name);
// `memory`, for example "2G"; 0 when it is not given.
Result<std::uint64_t> memory_argument(const boost::json::object& arguments, std::uint64_t max_bytes);
struct IntegerRange {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};
// A number without a fraction.
Result<std::optional<std::uint64_t>> integer_argument(const boost::json::object& arguments, std::string_view name,
                                                      IntegerRange range);
Result<std::vector<std::string>> strings_argument(const boost::json::object& arguments, std::string_view name);
// {"NAME": "value"} as "NAME=value".
Result<std::vector<std::string>> variables_argument(const boost::json::object& arguments, std::string_view name);
// `language`. Errc::invalid lists the supported ones.
Result<config::Language> language_argument(const boost::json::object& arguments, const config::Languages& languages);
// The session of a call: `session_id`, or, when that is "", the default session of `language`, which defaults to
// Python.
struct SessionArgument {
  std::string name;
  std::string language;
};
Result<SessionArgument> session_argument(const boost::json::object& arguments, const config::Languages& languages);
// `filename`, with the extension of its language if it has none; "" when it is not given.
Result<std::string> filename_argument(const boost::json::object& arguments, const config::Language& language);
// A path relative to the workspace: not empty, no leading slash, no "..".
Result<std::string> path_argument(std::string path, std::string_view name);

// The argument `path`, relative to /workspace. Accepts a leading /workspace/, as programs inside write it. The
// workspace itself is "", where `root` allows it.
enum class Root { allowed, refused };
Result<std::string> workspace_path(const boost::json::object& arguments, Root root);

}  // namespace cove::doors::mcp
