#pragma once

#include <boost/json.hpp>
#include <compare>
#include <cstddef>
#include <string>

namespace cove::schema {

// Of numbers, whatever way they are kept: 1 and 1.0 are the same.
std::partial_ordering compare_numbers(const boost::json::value& a, const boost::json::value& b);
bool is_integer(const boost::json::value& value);
bool is_multiple(const boost::json::value& value, const boost::json::value& of);
// A text that two values share exactly if they are equal as JSON has it. Takes what it costs from `steps`.
std::string canonical(const boost::json::value& value, std::size_t& steps);
bool equal(const boost::json::value& a, const boost::json::value& b, std::size_t& steps);

}  // namespace cove::schema
