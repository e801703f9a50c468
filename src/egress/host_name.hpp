#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::egress {

// The one spelling of a host's name: lower case, A-labels, without the last dot. Letters, digits, '-' and '_' in labels
// of 1 to 63 bytes, 253 in all. Whatever a program could take for an address ("127.1", "0x7f.1", "2130706433", "[::1]")
// is no name. UTF-8 becomes A-labels (IDNA 2008, with the mapping of UTS 46).
Result<std::string> canonical_name(std::string_view text);

// The same for names that came over the wire, where every name is ASCII already: anything else is refused.
Result<std::string> canonical_ascii_name(std::string_view text);

// What somebody gave as a name, at most 80 characters of it, without the bytes that a log or a terminal would stumble
// over.
std::string shown_name(std::string_view text);

}  // namespace cove::egress
