#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::json {

// Fields of an untrusted JSON object.

// The field as text; "" when it is missing or not a string.
std::string text_of(const boost::json::object& object, std::string_view name);

// Null when it is missing or null.
const boost::json::value* given_field(const boost::json::object& object, std::string_view name);
// nullopt when it is missing or null; Errc::invalid "NAME must be a string" and so on for another type.
Result<std::optional<std::string>> text_field(const boost::json::object& object, std::string_view name);
Result<std::optional<double>> number_field(const boost::json::object& object, std::string_view name);
Result<std::optional<bool>> bool_field(const boost::json::object& object, std::string_view name);
// Borrowed from `object`; null when it is missing or null.
Result<const boost::json::object*> object_field(const boost::json::object& object, std::string_view name);

// Errc::invalid "NAME WHY".
tl::unexpected<Error> wrong_field(std::string_view name, std::string_view why);

}  // namespace cove::json
