#include "outbound/connection.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <climits>
#include <new>

namespace cove::outbound {
namespace {

namespace asio = boost::asio;
using async::Task;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kConnectPatience{10};  // for one address of several
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

struct Moved {
  error_code failed;
  std::size_t size = 0;
};

Task<error_code> write_all(asio::ip::tcp::socket& socket, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const auto [failed, size] = co_await socket.async_write_some(asio::buffer(bytes.data(), bytes.size()), kTuple);
    if (failed) co_return failed;
    bytes = bytes.subspan(size);
  }
  co_return error_code();
}

}  // namespace

struct Connection::Line {
  asio::ip::tcp::socket socket;
  asio::steady_timer timer;
  bool late = false;
};

// OpenSSL on one side of a pair of buffers, the socket on the other.
class Connection::Tls {
 public:
  Tls(SSL_CTX* context, std::string host, asio::ip::tcp::socket& socket)
      : ssl_(SSL_new(context)), host_(std::move(host)), socket_(socket) {
    BIO* inner = nullptr;
    BIO* outer = nullptr;
    if (!ssl_ || BIO_new_bio_pair(&inner, 0, &outer, 0) != 1) throw std::bad_alloc();
    SSL_set_bio(ssl_.get(), inner, inner);
    outer_.reset(outer);
    SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS);
    SSL_set_app_data(ssl_.get(), this);
    SSL_set_verify(ssl_.get(), SSL_get_verify_mode(ssl_.get()), verify);
  }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  [[nodiscard]] SSL* handle() { return ssl_.get(); }

  Task<Moved> handshake() {
    return drive([](SSL* ssl, char*, int) { return SSL_connect(ssl); }, {});
  }
  Task<Moved> read_some(std::span<char> into) {
    return drive([](SSL* ssl, char* data, int size) { return SSL_read(ssl, data, size); }, into);
  }
  Task<Moved> write_some(std::span<char> from) {
    return drive([](SSL* ssl, char* data, int size) { return SSL_write(ssl, data, size); }, from);
  }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(BIO* bio) const { BIO_free(bio); }
  };
  using Step = int (*)(SSL* ssl, char* data, int size);

  static int verify(int good, X509_STORE_CTX* store) {
    const auto* ssl = static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    const auto* self = static_cast<const Tls*>(SSL_get_app_data(ssl));
    asio::ssl::verify_context context(store);
    return asio::ssl::host_name_verification(self->host_)(good == 1, context) ? 1 : 0;
  }

  // Repeats a step until OpenSSL has sent and received all it needs for it.
  Task<Moved> drive(Step step, std::span<char> bytes) {
    while (true) {
      ERR_clear_error();
      const int size = static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX));
      const int done = step(ssl_.get(), bytes.data(), size);
      const int want = SSL_get_error(ssl_.get(), done);
      const auto reason = static_cast<int>(ERR_get_error());
      // A step that failed may have something to send as well: the alert that tells the other side why.
      const auto unsent = co_await flush();
      if (want == SSL_ERROR_SSL || want == SSL_ERROR_SYSCALL) {
        const auto unknown = error_code(asio::ssl::error::unspecified_system_error);
        co_return Moved{reason == 0 ? unknown : error_code(reason, asio::error::get_ssl_category())};
      }
      if (unsent) co_return Moved{unsent};
      if (want == SSL_ERROR_NONE) co_return Moved{{}, static_cast<std::size_t>(done)};
      if (want == SSL_ERROR_ZERO_RETURN) co_return Moved{asio::error::eof};
      if (want == SSL_ERROR_WANT_WRITE) continue;
      if (want != SSL_ERROR_WANT_READ) co_return Moved{asio::ssl::error::unexpected_result};
      const auto unread = co_await fill();
      if (unread) co_return Moved{unread};
    }
  }

  Task<error_code> flush() {
    while (true) {
      const int size = BIO_read(outer_.get(), buffer_.data(), static_cast<int>(buffer_.size()));
      if (size <= 0) co_return error_code();
      const auto failed = co_await write_all(socket_, std::span(buffer_).first(static_cast<std::size_t>(size)));
      if (failed) co_return failed;
    }
  }

  Task<error_code> fill() {
    const auto room = std::min(buffer_.size(), BIO_ctrl_get_write_guarantee(outer_.get()));
    const auto [failed, size] = co_await socket_.async_read_some(asio::buffer(buffer_.data(), room), kTuple);
    // Who closes without saying so first may not have been the other side.
    if (failed == asio::error::eof) co_return asio::ssl::error::stream_truncated;
    if (!failed) BIO_write(outer_.get(), buffer_.data(), static_cast<int>(size));
    co_return failed;
  }

  std::unique_ptr<SSL, Free> ssl_;
  std::unique_ptr<BIO, Free> outer_;
  std::string host_;
  asio::ip::tcp::socket& socket_;
  std::array<char, 17 * 1024> buffer_{};  // a record, as in the pair
};

Connection::Connection(asio::any_io_executor executor, Url url, Clock::time_point until)
    : url_(std::move(url)),
      until_(until),
      line_(new Line{.socket = asio::ip::tcp::socket(executor), .timer = asio::steady_timer(executor)}) {}

Connection::~Connection() = default;

tl::unexpected<Error> Connection::broken(const error_code& failed) const {
  const auto message = line_->late ? std::string("no answer in time") : failed.message();
  return tl::unexpected<Error>(Error{.code = Errc::unavailable,
                                     .message = fmt::format("{}: {}", url_.authority(), message),
                                     .sys_errno = line_->late ? ETIMEDOUT : 0});
}

void Connection::expire_at(Clock::time_point time) {
  line_->late = false;
  line_->timer.expires_at(time);
  line_->timer.async_wait([weak = std::weak_ptr(line_)](const error_code& cancelled) {
    const auto line = weak.lock();
    // It may have been set anew after it had rung.
    if (cancelled || !line || line->timer.expiry() > Clock::now()) return;
    line->late = true;
    error_code ignored;
    line->socket.close(ignored);
  });
}

Task<Result<>> Connection::connect(std::vector<asio::ip::address> addresses) {
  error_code last = asio::error::host_not_found;
  for (const auto& address : addresses) {
    if (Clock::now() >= until_) break;
    expire_at(std::min(until_, Clock::now() + kConnectPatience));
    const asio::ip::tcp::endpoint endpoint(address, url_.port);
    const auto [failed] = co_await line_->socket.async_connect(endpoint, kTuple);
    if (!failed && !line_->late) {
      expire_at(until_);
      co_return Result<>();
    }
    last = failed;
    close();
  }
  line_->late = line_->late || Clock::now() >= until_;
  co_return broken(last);
}

Task<Result<>> Connection::secure(asio::ssl::context& context) {
  tls_ = std::make_unique<Tls>(context.native_handle(), url_.host, line_->socket);
  error_code literal;
  asio::ip::make_address(url_.host, literal);
  // A name is told to the other side; an address is not one.
  if (literal && SSL_set_tlsext_host_name(tls_->handle(), url_.host.c_str()) != 1)
    co_return fail(Errc::unavailable, fmt::format("{}: the name cannot be sent to the server (SNI)", url_.authority()));
  const auto shaken = co_await tls_->handshake();
  if (!shaken.failed) co_return Result<>();
  // What OpenSSL found wrong with the certificate, which its error code does not tell.
  const auto verdict = SSL_get_verify_result(tls_->handle());
  if (verdict == X509_V_OK) co_return broken(shaken.failed);
  co_return fail(Errc::unavailable, fmt::format("{}: certificate verification failed: {}", url_.authority(),
                                                X509_verify_cert_error_string(verdict)));
}

Task<Result<>> Connection::write(std::string bytes) {
  error_code failed;
  if (tls_) {
    for (std::span<char> rest(bytes); !rest.empty() && !failed;) {
      const auto moved = co_await tls_->write_some(rest);
      failed = moved.failed;
      rest = rest.subspan(moved.size);
    }
  } else {
    failed = co_await write_all(line_->socket, bytes);
  }
  if (failed && failed != asio::error::broken_pipe && failed != asio::error::connection_reset) co_return broken(failed);
  co_return Result<>();
}

Task<Result<std::size_t>> Connection::read_some(std::span<char> into) {
  Moved moved;
  if (tls_) {
    moved = co_await tls_->read_some(into);
  } else {
    const auto [failed, size] = co_await line_->socket.async_read_some(asio::buffer(into.data(), into.size()), kTuple);
    moved = Moved{failed, size};
  }
  if (moved.failed == asio::error::eof) co_return std::size_t{0};
  if (moved.failed) co_return broken(moved.failed);
  co_return moved.size;
}

void Connection::close() {
  error_code ignored;
  line_->socket.close(ignored);
}

}  // namespace cove::outbound
