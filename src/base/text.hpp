#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cove {

// Takes the part before the first `separator`, and the separator, off the front of `rest`.
std::string_view take_until(std::string_view& rest, char separator);

// Strict: no overlong forms, no surrogates, nothing past U+10FFFF.
bool valid_utf8(std::string_view bytes);
// Every maximal ill-formed part becomes one U+FFFD, as the Unicode standard recommends.
std::string replace_invalid_utf8(std::string_view bytes);
// How many bytes at the end are the beginning of a character: 0 to 3.
std::size_t unfinished_utf8(std::string_view bytes);
// One line of at most `most` bytes, valid UTF-8: control characters become blanks, and what was cut off a sign of it.
std::string one_line(std::string_view text, std::size_t most);
std::string base64(std::string_view bytes);
// Strict: the standard alphabet, right padding, one text per value; nullopt for anything else. Padding::optional takes
// text without any padding too, as clients of our APIs send it.
enum class Padding { required, optional };
std::optional<std::string> from_base64(std::string_view text, Padding padding = Padding::required);
// With '-' and '_', without padding: for addresses.
std::string to_base64url(std::string_view bytes);
// Takes right padding too, which some key sets have.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace cove
