#pragma once

#include <boost/json.hpp>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "config/languages.hpp"

namespace cove::doors::mcp {

// JSON Schema, as far as tools describe their arguments and answers with it.
using Properties = std::initializer_list<std::pair<std::string_view, boost::json::object>>;
using Names = std::initializer_list<std::string_view>;
boost::json::object schema(Properties properties, Names required);
// The arguments of a tool that works in a session: its own, then `session_id` and `language`.
boost::json::object session_schema(const config::Languages& languages, Properties properties, Names required);
// Adds properties to a schema.
boost::json::object with_properties(boost::json::object schema, Properties properties);
boost::json::object property(std::string_view type, std::string_view description);
boost::json::object nullable(std::string_view type, std::string_view description);
boost::json::object list_of(boost::json::object items, std::string_view description);
boost::json::object one_of(boost::json::array words, std::string_view description);
// {"NAME": "value"}
boost::json::object map_of_strings(std::string_view description);
// The argument `session_id`.
boost::json::object session_property();
// The argument `language`, with every language as a value. `usual` is its default; "" makes it required.
boost::json::object language_property(const config::Languages& languages, std::string_view usual);

// The annotations of a tool (readOnlyHint and so on). openWorldHint is false: tools stay inside the sandbox.
struct Hints {
  bool read_only = false;
  bool destructive = false;
  bool idempotent = false;
};
boost::json::object annotations(Hints hints);

}  // namespace cove::doors::mcp
