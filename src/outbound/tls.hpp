#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace cove::outbound {

// A context that verifies servers by the CA certificates of `ca_file` (PEM), or by the system's when it is empty.
Result<std::unique_ptr<boost::asio::ssl::context>> tls_context(const std::string& ca_file);

}  // namespace cove::outbound
