#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace cove::tools::codegen {

inline constexpr std::size_t kMaxDepth = 12;  // what lies deeper is Any

// The member as an object, an array or a text; null when it is something else or missing.
const boost::json::object* object_in(const boost::json::object& schema, std::string_view name);
const boost::json::array* array_in(const boost::json::object& schema, std::string_view name);
std::string_view text_in(const boost::json::object& schema, std::string_view name);

// What "#/$defs/X" points to; null when it is no reference into this schema.
const boost::json::value* resolve(const boost::json::object& root, std::string_view reference);
// Whether "required" names it.
bool is_required(const boost::json::object& schema, std::string_view property);
// The schema of an object with what its allOf and its reference add to "properties" and "required".
boost::json::object merged(const boost::json::object& schema, const boost::json::object& root);

// The type of a value in a signature, without classes of its own: Dict[str, Any] for an object.
std::string plain_type(const boost::json::value& schema, const boost::json::object& root);

}  // namespace cove::tools::codegen
