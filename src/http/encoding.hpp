#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cove::http {

// %XX once; nothing when a '%' is not followed by two hex digits.
std::optional<std::string> percent_decode(std::string_view text);
// The same with '+' for a blank.
std::optional<std::string> form_decode(std::string_view text);

// As headers write a time: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(std::int64_t unix_ns);

bool equals_ignoring_case(std::string_view a, std::string_view b);
std::string to_lower(std::string_view text);
// Without blanks and tabs at both ends.
std::string_view trim(std::string_view text);
// May be the name of a header (RFC 9110).
bool is_token(std::string_view text);
// Whether a comma-separated list has the word.
bool list_has(std::string_view list, std::string_view word);

}  // namespace cove::http
