#include "egress/tls_stream.hpp"

#include <openssl/ssl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace cove::egress {
namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using async::Task;
using tcp = asio::ip::tcp;

constexpr auto kTlsTuple = asio::as_tuple(asio::use_awaitable);

class TlsStream final : public ByteStream {
 public:
  TlsStream(tcp::socket& socket, std::shared_ptr<ssl::context> context)
      : context_(std::move(context)), stream_(socket, *context_) {}

  ssl::stream<tcp::socket&>& stream() { return stream_; }

  Task<std::size_t> read_some(std::span<char> into) override {
    const auto [failed, size] = co_await stream_.async_read_some(asio::buffer(into.data(), into.size()), kTlsTuple);
    co_return failed ? 0 : size;
  }
  Task<bool> write(std::string_view bytes) override {
    const auto [failed, size] =
        co_await asio::async_write(stream_, asio::buffer(bytes.data(), bytes.size()), kTlsTuple);
    co_return !failed;
  }
  Task<> end() override {
    [[maybe_unused]] const auto [failed] = co_await stream_.async_shutdown(kTlsTuple);
    boost::system::error_code ignored;
    stream_.next_layer().shutdown(tcp::socket::shutdown_send, ignored);
  }

 private:
  std::shared_ptr<ssl::context> context_;
  ssl::stream<tcp::socket&> stream_;
};

}  // namespace

Task<Result<std::shared_ptr<ByteStream>>> accept_tls(tcp::socket& socket, std::shared_ptr<ssl::context> context,
                                                     std::string begun) {
  auto stream = std::make_shared<TlsStream>(socket, std::move(context));
  const auto [failed, taken] =
      co_await stream->stream().async_handshake(ssl::stream_base::server, asio::buffer(begun), kTlsTuple);
  if (failed) co_return fail(Errc::unavailable, fmt::format("the client does not shake hands: {}", failed.message()));
  co_return std::shared_ptr<ByteStream>(std::move(stream));
}

Task<Result<std::shared_ptr<ByteStream>>> connect_tls(tcp::socket& socket, std::shared_ptr<ssl::context> context,
                                                      std::string name) {
  auto stream = std::make_shared<TlsStream>(socket, std::move(context));
  auto* native = stream->stream().native_handle();
  constexpr std::string_view kProtocol("\x08http/1.1", 9);
  if (SSL_set_tlsext_host_name(native, name.c_str()) != 1 ||
      SSL_set_alpn_protos(native, reinterpret_cast<const unsigned char*>(kProtocol.data()), kProtocol.size()) != 0)
    co_return fail(Errc::io, "TLS cannot be begun");
  boost::system::error_code refused;
  stream->stream().set_verify_mode(ssl::verify_peer, refused);
  stream->stream().set_verify_callback(ssl::host_name_verification(name), refused);
  if (refused) co_return fail(Errc::io, "TLS cannot be begun");
  const auto [failed] = co_await stream->stream().async_handshake(ssl::stream_base::client, kTlsTuple);
  if (failed) co_return fail(Errc::unavailable, fmt::format("{} does not prove who it is: {}", name, failed.message()));
  co_return std::shared_ptr<ByteStream>(std::move(stream));
}

Result<std::shared_ptr<ssl::context>> trusting(const std::string& certificates) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  if (SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION) != 1)
    return fail(Errc::unsupported, "TLS 1.2 cannot be required");
  boost::system::error_code failed;
  if (!certificates.empty()) context->add_certificate_authority(asio::buffer(certificates), failed);
  if (failed) return fail(Errc::unavailable, fmt::format("certificates cannot be read: {}", failed.message()));
  context->set_verify_mode(ssl::verify_peer, failed);
  if (failed) return fail(Errc::unsupported, failed.message());
  return context;
}

}  // namespace cove::egress
