#include "outbound/tls.hpp"

#include <openssl/ssl.h>

namespace cove::outbound {

namespace ssl = boost::asio::ssl;

Result<std::unique_ptr<ssl::context>> tls_context(const std::string& ca_file) {
  boost::system::error_code failed;
  auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
  if (SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION) != 1)
    return fail(Errc::unsupported, "TLS 1.2 cannot be required");
  if (ca_file.empty())
    context->set_default_verify_paths(failed);
  else
    context->load_verify_file(ca_file, failed);
  if (failed)
    return fail(Errc::unavailable,
                fmt::format("certificates cannot be read from {}: {}",
                            ca_file.empty() ? std::string("the system's store") : ca_file, failed.message()));
  context->set_verify_mode(ssl::verify_peer, failed);
  if (failed) return fail(Errc::unsupported, failed.message());
  return context;
}

}  // namespace cove::outbound
