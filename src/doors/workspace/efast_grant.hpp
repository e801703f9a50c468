#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "outbound/client.hpp"

namespace cove::doors::workspace {

// A document store's permission to download a document: its address and the headers to send.
struct EfastGrant {
  outbound::Url url;
  outbound::Headers headers;
  std::string name;
  std::uint64_t size = 0;
  std::string rev;
};

// Parses the store's answer to `osdownload`. Errc::invalid if it is malformed.
Result<EfastGrant> parse_grant(std::string_view answer);

}  // namespace cove::doors::workspace
