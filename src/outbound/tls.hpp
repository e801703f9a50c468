#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace cove::outbound {

// What verifies the other side of https: certificates of `ca_file` (PEM) alone, or of the system's store when it is
// empty.
Result<std::unique_ptr<boost::asio::ssl::context>> tls_context(const std::string& ca_file);

}  // namespace cove::outbound
