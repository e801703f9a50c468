#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

namespace cove::tools::codegen {

// Texts of strangers as Python source. Whatever they hold, they stay texts: everything outside printable ASCII is
// escaped, and what would end a literal too.

// "text", in double quotes.
std::string string_literal(std::string_view text);
// As repr() shows it: what a JSON value is in Python, with strings in single quotes.
std::string repr(const boost::json::value& value);
// """text""", with its line breaks.
std::string docstring(std::string_view text);
// A JSON value as a default or a constant: strings in double quotes.
std::string constant(const boost::json::value& value);

}  // namespace cove::tools::codegen
