#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "outbound/client.hpp"

namespace cove::doors::workspace {

// What a document store says of a document: where it is to be had, and with which headers.
struct EfastGrant {
  outbound::Url url;
  outbound::Headers headers;
  std::string name;
  std::uint64_t size = 0;
  std::string rev;
};

// Its answer to `osdownload`. Errc::invalid for what is none.
Result<EfastGrant> parse_grant(std::string_view answer);

}  // namespace cove::doors::workspace
