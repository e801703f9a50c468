#include "outbound/client.hpp"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "async/deadline.hpp"
#include "outbound/tls.hpp"

namespace cove::outbound {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kConnectPatience{10};  // for one address of several
constexpr std::chrono::milliseconds kLook{200};       // how often it is seen whether anybody still waits
constexpr std::uint32_t kMaxHead = 64 * 1024;
constexpr std::size_t kPiece = 64 * 1024;
constexpr int kMaxInterim = 8;  // answers such as 103 before the real one

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

tl::unexpected<Error> broken(const Url& url, const beast::error_code& failed) {
  const bool late = failed == beast::error::timeout;
  return tl::unexpected<Error>(Error{
      .code = Errc::unavailable,
      .message = fmt::format("{}: {}", url.authority(), late ? std::string("no answer in time") : failed.message()),
      .sys_errno = late ? ETIMEDOUT : 0});
}

bool token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != kOthers.npos;
  });
}

bool one_line(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

Result<http::request<http::string_body>> message(const Request& request, const Options& options) {
  if (!token(request.method)) return fail(Errc::invalid, "the method is malformed");
  http::request<http::string_body> out;
  out.version(11);
  out.method_string(request.method);
  out.target(request.url.target);
  for (const auto& [name, value] : request.headers) {
    if (!token(name) || !one_line(value)) return fail(Errc::invalid, fmt::format("the header '{}' is malformed", name));
    out.insert(name, value);
  }
  out.set(http::field::host, request.url.authority());
  out.set(http::field::connection, "close");
  if (out.count(http::field::user_agent) == 0) out.set(http::field::user_agent, options.user_agent);
  out.body() = request.body;
  if (!request.body.empty() || (request.method != "GET" && request.method != "HEAD" && request.method != "DELETE"))
    out.content_length(request.body.size());
  return out;
}

template <class Parser>
Head head_of(const Parser& parser, const Url& url) {
  Head head{.status = parser.get().result_int(), .headers = {}, .url = url};
  for (const auto& field : parser.get()) head.headers.emplace_back(field.name_string(), field.value());
  return head;
}

// Where an answer leads on to; no location: it was the last.
struct Hop {
  unsigned status = 0;
  std::string location{};
};

bool redirects(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Sends and reads over a stream that is connected. An answer that is to be followed is not read further.
template <class Stream>
Task<Result<Hop>> exchange(Stream& stream, const http::request<http::string_body>& out, const Request& request,
                           Receiver& receiver) {
  const auto [unsent, sent] = co_await http::async_write(stream, out, kTuple);
  // One that answers and closes before it has read everything is still worth hearing.
  if (unsent && unsent != asio::error::broken_pipe && unsent != asio::error::connection_reset)
    co_return broken(request.url, unsent);
  beast::flat_buffer buffer;
  std::optional<http::response_parser<http::buffer_body>> parser;
  for (int interim = 0;; ++interim) {
    if (interim > kMaxInterim) co_return fail(Errc::unavailable, "too many interim (1xx) responses");
    parser.emplace();
    parser->header_limit(kMaxHead);
    parser->body_limit(boost::none);
    if (request.method == "HEAD") parser->skip(true);
    const auto [failed, read] = co_await http::async_read_header(stream, buffer, *parser, kTuple);
    if (failed) co_return broken(request.url, failed);
    if (parser->get().result_int() >= 200) break;
  }
  auto head = head_of(*parser, request.url);
  if (request.redirects > 0 && redirects(head.status) && !head.header("Location").empty()) {
    co_return Hop{.status = head.status, .location = std::string(head.header("Location"))};
  }
  const auto length = parser->content_length();
  const auto too_large = fail(Errc::over_limit, fmt::format("{}: the answer is larger than {} bytes",
                                                            request.url.authority(), request.max_body_bytes));
  if (length && *length > request.max_body_bytes && request.method != "HEAD") co_return too_large;
  if (auto begun = co_await receiver.begin(std::move(head)); !begun) co_return tl::unexpected<Error>(begun.error());
  std::uint64_t total = 0;
  std::vector<char> piece(kPiece);
  while (!parser->is_done()) {
    parser->get().body().data = piece.data();
    parser->get().body().size = piece.size();
    const auto [failed, read] = co_await http::async_read_some(stream, buffer, *parser, kTuple);
    if (failed && failed != http::error::need_buffer) co_return broken(request.url, failed);
    const auto size = piece.size() - parser->get().body().size;
    if (size == 0) continue;
    total += size;
    if (total > request.max_body_bytes) co_return too_large;
    std::string bytes(piece.data(), size);
    if (auto taken = co_await receiver.take(std::move(bytes)); !taken) co_return tl::unexpected<Error>(taken.error());
  }
  co_return Hop{};
}

// Breaks off a request that nobody waits for any more. Knows the socket only while it is used.
struct Watch {
  beast::tcp_stream* stream = nullptr;
  bool over = false;
};

Task<> watch_over(std::shared_ptr<Watch> watch, std::function<bool()> abandoned) {
  while (!watch->over && !abandoned()) co_await async::sleep_for(kLook);
  if (!watch->over && watch->stream != nullptr) watch->stream->close();
}

// For as long as a stream stands where it stands.
class Watched {
 public:
  Watched(std::shared_ptr<Watch> watch, beast::tcp_stream& stream) : watch_(std::move(watch)) {
    watch_->stream = &stream;
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { watch_->stream = nullptr; }

 private:
  std::shared_ptr<Watch> watch_;
};

// The first of the addresses that answers.
Task<Result<>> connect(beast::tcp_stream& stream, Url url, std::vector<asio::ip::address> addresses,
                       Clock::time_point until) {
  beast::error_code last = asio::error::host_not_found;
  for (const auto& address : addresses) {
    if (Clock::now() >= until) break;
    stream.expires_at(std::min(until, Clock::now() + kConnectPatience));
    const asio::ip::tcp::endpoint endpoint(address, url.port);
    const auto [failed] = co_await stream.async_connect(endpoint, kTuple);
    if (!failed) {
      stream.expires_at(until);
      co_return Result<>();
    }
    last = failed;
    stream.close();
  }
  if (Clock::now() >= until) last = beast::error::timeout;
  co_return broken(url, last);
}

// What OpenSSL found wrong with the certificate, which its error code does not tell.
template <class Stream>
tl::unexpected<Error> handshake_failure(Stream& stream, const Url& url, const beast::error_code& failed) {
  const auto verdict = SSL_get_verify_result(stream.native_handle());
  if (verdict == X509_V_OK) return broken(url, failed);
  return fail(Errc::unavailable, fmt::format("{}: certificate verification failed: {}", url.authority(),
                                             X509_verify_cert_error_string(verdict)));
}

class Collector : public Receiver {
 public:
  Task<Result<>> begin(Head head) override {
    response.head = std::move(head);
    co_return Result<>();
  }
  Task<Result<>> take(std::string bytes) override {
    response.body += bytes;
    co_return Result<>();
  }
  Response response;
};

// As browsers do: after 303, and after a 301 or 302 to a POST, the next is a GET without a body; headers
// and body meant for one origin are not sent to another.
void follow(Request& request, unsigned status, Url next) {
  const bool as_get = (status == 303 && request.method != "HEAD") || (status < 303 && request.method == "POST");
  if (as_get) {
    request.method = "GET";
    request.body.clear();
  }
  if (!next.same_origin(request.url)) {
    std::erase_if(request.headers, [](const auto& header) {
      return beast::iequals(header.first, "Authorization") || beast::iequals(header.first, "Cookie");
    });
  }
  request.url = std::move(next);
  --request.redirects;
}

Task<Result<Hop>> over_plain(beast::tcp_stream stream, std::shared_ptr<Watch> watch,
                             const http::request<http::string_body>& out, const Request& request, Receiver& receiver) {
  const Watched watched(std::move(watch), stream);
  co_return co_await exchange(stream, out, request, receiver);
}

Task<Result<Hop>> over_tls(beast::tcp_stream plain, std::shared_ptr<Watch> watch, asio::ssl::context& context,
                           const http::request<http::string_body>& out, const Request& request, Receiver& receiver) {
  const auto& url = request.url;
  beast::ssl_stream<beast::tcp_stream> stream(std::move(plain), context);
  const Watched watched(std::move(watch), stream.next_layer());
  boost::system::error_code literal;
  asio::ip::make_address(url.host, literal);
  // A name is told to the other side; an address is not one.
  if (literal && SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str()) != 1)
    co_return fail(Errc::unavailable, fmt::format("{}: the name cannot be sent to the server (SNI)", url.authority()));
  stream.set_verify_callback(asio::ssl::host_name_verification(url.host));
  const auto [failed] = co_await stream.async_handshake(asio::ssl::stream_base::client, kTuple);
  if (failed) co_return handshake_failure(stream, url, failed);
  co_return co_await exchange(stream, out, request, receiver);
}

}  // namespace

std::string_view Head::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [name](const auto& header) { return beast::iequals(header.first, name); });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Client::Client(asio::any_io_executor executor, Options options)
    : executor_(executor), options_(std::move(options)), resolver_(executor, options_.lookups) {}

Result<asio::ssl::context*> Client::tls() {
  if (!tls_) {
    COVE_TRY(tls_, tls_context(options_.ca_file));
  }
  return tls_.get();
}

Task<Result<>> Client::send(Request request, Receiver& receiver) {
  const auto watch = std::make_shared<Watch>();
  struct Over {
    std::shared_ptr<Watch> watch;
    ~Over() { watch->over = true; }
  } const over{watch};
  if (request.abandoned) asio::co_spawn(executor_, watch_over(watch, request.abandoned), asio::detached);
  while (true) {
    if (request.abandoned && request.abandoned())
      co_return fail(Errc::unavailable, "nobody waits for the answer any more");
    const auto found = co_await resolver_.resolve(request.url.host, request.tenant, request.until);
    if (!found) co_return tl::unexpected<Error>(found.error());
    auto addresses = dialable(request.url, request.reach, *found);
    if (addresses.empty())
      co_return fail(Errc::denied,
                     fmt::format("{} has no public address, and is not allowed by name", request.url.authority()));
    const auto out = message(request, options_);
    if (!out) co_return tl::unexpected<Error>(out.error());
    beast::tcp_stream stream(executor_);
    {
      const Watched watched(watch, stream);
      if (auto connected = co_await connect(stream, request.url, std::move(addresses), request.until); !connected)
        co_return connected;
    }
    Result<Hop> hop = Hop{};
    if (request.url.tls) {
      const auto context = tls();
      if (!context) co_return tl::unexpected<Error>(context.error());
      hop = co_await over_tls(std::move(stream), watch, **context, *out, request, receiver);
    } else {
      hop = co_await over_plain(std::move(stream), watch, *out, request, receiver);
    }
    if (!hop) co_return tl::unexpected<Error>(hop.error());
    if (hop->location.empty()) co_return Result<>();
    auto next = resolve_url(request.url, hop->location);
    if (!next) co_return tl::unexpected<Error>(next.error());
    follow(request, hop->status, std::move(*next));
  }
}

Task<Result<Response>> Client::send(Request request) {
  Collector collector;
  auto sent = co_await send(std::move(request), collector);
  if (!sent) co_return tl::unexpected<Error>(sent.error());
  co_return std::move(collector.response);
}

}  // namespace cove::outbound
