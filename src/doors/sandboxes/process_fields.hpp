#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace cove::doors::sandboxes {

// Rows or columns of a terminal; `usual` when the field is missing.
Result<std::uint16_t> size_field(const boost::json::object& object, std::string_view name, std::uint16_t usual);
// `signal`: a name such as "SIGTERM", or a number.
Result<int> signal_field(const boost::json::object& body);

}  // namespace cove::doors::sandboxes
