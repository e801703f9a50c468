#pragma once

#include <string>
#include <string_view>

namespace cove::schema {

// Of text in UTF-8; what is ill-formed becomes U+FFFD.
std::u32string code_points(std::string_view utf8);

}  // namespace cove::schema
