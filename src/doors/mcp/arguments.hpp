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

// The arguments of a call, each of the type that its tool says. Errc::invalid names the one that is not.
Result<std::optional<std::string>> text_argument(const boost::json::object& arguments, std::string_view name);
Result<std::string> required_text(const boost::json::object& arguments, std::string_view name);
Result<bool> flag_argument(const boost::json::object& arguments, std::string_view name);
Result<std::optional<double>> number_argument(const boost::json::object& arguments, std::string_view name);
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
// `language`, which has to be one there is. Errc::invalid lists those.
Result<config::Language> language_argument(const boost::json::object& arguments, const config::Languages& languages);
// Which session a call means: `session_id`, or without it the one of `language`, which is Python's if not given.
struct SessionArgument {
  std::string name;
  std::string language;
};
Result<SessionArgument> session_argument(const boost::json::object& arguments, const config::Languages& languages);
// `filename`, with the extension of its language if it has none; "" when it is not given.
Result<std::string> filename_argument(const boost::json::object& arguments, const config::Language& language);
// A path below the workspace: no leading slash, no "..", nothing empty.
Result<std::string> path_argument(std::string path, std::string_view name);

// The argument `path`, relative to /workspace, which itself may be meant where `whole` says so: "". A path that begins
// with /workspace/ is taken as well: programs inside call it so.
enum class Root { allowed, refused };
Result<std::string> workspace_path(const boost::json::object& arguments, Root root);

}  // namespace cove::doors::mcp
