#include "http/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ctime>

#include "http/connection.hpp"
#include "http/cors.hpp"
#include "http/encoding.hpp"
#include "http/websocket_stream.hpp"

namespace cove::http {
namespace {

constexpr std::size_t kChargedAnswer = std::size_t{4} << 10;  // what is smaller is not worth counting

void add_header(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  // No value can end its line.
  for (const char c : value) out += static_cast<unsigned char>(c) < 0x20 || c == '\x7f' ? ' ' : c;
  out += "\r\n";
}

// "Sun, 06 Nov 1994 08:49:37 GMT", made once a second.
const std::string& http_date() {
  static std::time_t made = 0;
  static std::string text;
  const auto now = std::time(nullptr);
  if (now != made) {
    made = now;
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char buffer[64];
    text.assign(buffer, std::strftime(buffer, sizeof buffer, "%a, %d %b %Y %H:%M:%S GMT", &parts));
  }
  return text;
}

bool has_body(unsigned status) {
  return status >= 200 && status != 204 && status != 304;
}

// Headers that are the server's business.
bool is_ours(std::string_view name) {
  for (const std::string_view ours : {"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Date",
                                      "X-Request-Id", "X-Content-Type-Options", "Content-Type"}) {
    if (equals_ignoring_case(name, ours)) return true;
  }
  return false;
}

}  // namespace

Exchange::Exchange(Connection& connection, Request request, std::uint64_t body_limit)
    : connection_(connection),
      request_(std::move(request)),
      body_limit_(body_limit),
      changed_(connection.shared_->executor),
      charge_(connection.shared_->budget.open(request_.principal.tenant)) {}

Exchange::~Exchange() = default;

std::optional<std::uint64_t> Exchange::content_length() const {
  return connection_.content_length_;
}

Task<Result<std::string>> Exchange::read_body(std::size_t limit) {
  const auto most = std::min<std::uint64_t>(limit, body_limit_);
  const auto too_large = [&] { return fail(Errc::over_limit, fmt::format("the body is larger than {} bytes", most)); };
  std::string body;
  connection_.body_rate_ = connection_.options_->whole_body_min_rate;
  if (const auto announced = content_length()) {
    if (*announced - bytes_in_ > most) co_return too_large();
    // As large as announced, but not before the bytes are there: an announcement costs the client nothing.
    body.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(*announced - bytes_in_, std::uint64_t{1} << 20)));
  }
  for (;;) {
    const auto old = body.size();
    const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(most - old + 1, std::uint64_t{64} << 10));
    body.resize(old + room);
    auto count = co_await read_body_some(body.data() + old, room);
    if (!count) co_return tl::unexpected<Error>(count.error());
    body.resize(old + *count);
    if (*count == 0) co_return body;
    if (auto charged = charge_.grow(*count); !charged) {
      co_await say_full(charged.error());
      co_return fail(Errc::unavailable, charged.error().message);
    }
    if (body.size() > most) {
      over_limit_ = true;
      co_return too_large();
    }
  }
}

Task<Result<std::size_t>> Exchange::read_body_some(char* data, std::size_t size) {
  if (over_limit_) co_return fail(Errc::over_limit, "the body is larger than this route accepts");
  if (malformed_) co_return fail(Errc::invalid, "the body is malformed");
  auto count = co_await connection_.read_body(data, size);
  if (!count) {
    malformed_ = count.error().code == Errc::invalid;
    co_return count;
  }
  bytes_in_ += *count;
  if (connection_.body_.done()) connection_.watch();
  if (bytes_in_ > body_limit_) {
    over_limit_ = true;
    co_return fail(Errc::over_limit, "the body is larger than this route accepts");
  }
  co_return count;
}

Task<Result<>> Exchange::send_head(Response head, Framing framing, std::uint64_t length, std::string_view body) {
  if (answered()) co_return fail(Errc::invalid, "this request has been answered already");
  status_ = head.status;
  const bool bodiless = request_.method == verb::head || !has_body(head.status);

  // What stands between this answer and another request on the same connection.
  const auto unread = connection_.body_.raw_left();
  const bool unreadable = connection_.expect_pending_ || unread > connection_.options_->discard_limit;
  if (connection_.shared_->draining || malformed_ || (!connection_.body_.done() && unreadable) ||
      framing == Framing::close) {
    connection_.keep_alive_ = false;
  }

  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", head.status, reason_phrase(head.status));
  out.reserve(512);
  if (has_body(head.status)) {
    if (!head.content_type.empty()) add_header(out, "Content-Type", head.content_type);
    if (framing == Framing::length) add_header(out, "Content-Length", std::to_string(length));
    if (framing == Framing::chunked) add_header(out, "Transfer-Encoding", "chunked");
  }
  add_header(out, "Date", http_date());
  add_header(out, "X-Request-Id", request_.id);
  add_header(out, "X-Content-Type-Options", "nosniff");
  std::ranges::move(added_, std::back_inserter(head.headers));
  if (!page_.empty()) admit_page(page_, head.headers);
  bool own_policy = false;
  bool says_keep_alive = request_.version < 11;
  for (const auto& [name, value] : head.headers) {
    // Said by default, and by name only to clients that were promised it.
    if (equals_ignoring_case(name, "Connection") && value == "keep-alive") says_keep_alive = true;
    if (!is_token(name) || is_ours(name)) continue;
    own_policy = own_policy || equals_ignoring_case(name, "Content-Security-Policy");
    add_header(out, name, value);
  }
  if (!own_policy) add_header(out, "Content-Security-Policy", "frame-ancestors 'none'");
  if (!connection_.keep_alive_) {
    add_header(out, "Connection", "close");
  } else if (says_keep_alive) {
    add_header(out, "Connection", "keep-alive");
  }
  out += "\r\n";

  framing_ = bodiless ? Framing::none : framing;
  left_ = length;
  if (bodiless) body = {};
  auto sent = co_await connection_.write(
      {boost::asio::const_buffer(out.data(), out.size()), boost::asio::const_buffer(body.data(), body.size()), {}});
  if (sent) bytes_out_ += body.size();
  co_return sent;
}

Task<> Exchange::say_full(Error why) {
  auto response = why.code == Errc::quota
                      ? error_response(429, "quota", why.message + ": try again when some of them have ended")
                      : error_response(503, "unavailable", why.message + ": try again when some of them have ended");
  response.headers.emplace_back("Retry-After", "1");
  connection_.keep_alive_ = false;  // the rest of the body is not worth reading
  if (const auto sent = co_await send(std::move(response)); !sent) connection_.socket_->close();
}

Task<Result<>> Exchange::send(Response response) {
  const auto* dialect = response.error_code.empty() ? nullptr : connection_.shared_->router.dialect_of(request_.path);
  if (dialect != nullptr) {
    response = (*dialect)(std::move(response));
  } else if (!response.error_code.empty()) {
    const boost::json::value error = {
        {"error", response.body}, {"code", response.error_code}, {"requestId", request_.id}};
    response.body = boost::json::serialize(error);
  }
  if (response.body.size() > kChargedAnswer) {
    if (auto charged = charge_.grow(response.body.size()); !charged) {
      response = {};
      co_await say_full(charged.error());
      co_return fail(Errc::unavailable, charged.error().message);
    }
  }
  const std::string body = std::move(response.body);
  auto sent = co_await send_head(std::move(response), Framing::length, body.size(), body);
  if (sent) finished_ = true;
  co_return sent;
}

Task<Result<>> Exchange::start(Response head) {
  return send_head(std::move(head), request_.version >= 11 ? Framing::chunked : Framing::close, 0, {});
}

Task<Result<>> Exchange::start(Response head, std::uint64_t length) {
  return send_head(std::move(head), Framing::length, length, {});
}

Task<Result<>> Exchange::write(std::string_view bytes) {
  if (!answered() || finished_) co_return fail(Errc::invalid, "no answer has been started");
  if (framing_ == Framing::none || bytes.empty()) co_return Result<>{};
  if (framing_ == Framing::length) {
    if (bytes.size() > left_) {
      abort();
      co_return fail(Errc::invalid, "more was written than announced");
    }
    left_ -= bytes.size();
  }
  const bool chunked = framing_ == Framing::chunked;
  const std::string size = chunked ? fmt::format("{:x}\r\n", bytes.size()) : std::string();
  const std::string_view end = chunked ? "\r\n" : "";
  // Until the client has taken it. One that leaves too much lying is cut off: the head of the answer is out already.
  auto unsent = connection_.shared_->budget.open(request_.principal.tenant);
  if (bytes.size() > kChargedAnswer) {
    if (auto charged = unsent.grow(bytes.size()); !charged) {
      abort();
      co_return charged;
    }
  }
  auto sent = co_await connection_.write({boost::asio::const_buffer(size.data(), size.size()),
                                          boost::asio::const_buffer(bytes.data(), bytes.size()),
                                          boost::asio::const_buffer(end.data(), end.size())});
  if (sent) bytes_out_ += bytes.size();
  co_return sent;
}

Task<Result<>> Exchange::finish() {
  if (!answered()) co_return fail(Errc::invalid, "no answer has been started");
  if (finished_) co_return Result<>{};
  if (framing_ == Framing::length && left_ > 0) {
    abort();
    co_return fail(Errc::invalid, "less was written than announced");
  }
  if (framing_ == Framing::chunked) {
    auto sent = co_await connection_.write("0\r\n\r\n");
    if (!sent) co_return sent;
  }
  finished_ = true;
  co_return Result<>{};
}

void Exchange::abort() {
  connection_.socket_->reset();
  connection_.client_left();
}

bool Exchange::client_gone() const {
  return connection_.gone_;
}

Task<Result<std::unique_ptr<WebSocket>>> Exchange::accept_websocket(WebSocketWish wish) {
  if (answered()) co_return fail(Errc::invalid, "this request has been answered already");
  // Frames that come before our answer come from no browser and no library, but from somebody who tries what a proxy
  // in between makes of them.
  const bool early = !connection_.input().empty() || !connection_.body_.done();
  auto problem =
      early ? std::optional(error_response(400, "invalid", "nothing may follow the handshake before its answer"))
            : websocket_problem(request_);
  if (problem) {
    connection_.keep_alive_ = false;
    auto sent = co_await send(std::move(*problem));
    if (!sent) co_return tl::unexpected<Error>(sent.error());
    co_return fail(Errc::invalid, "this is not a WebSocket handshake");
  }
  connection_.socket_->stop_watching();
  connection_.upgraded_ = true;
  connection_.keep_alive_ = false;
  status_ = 101;
  finished_ = true;
  const auto& options = *connection_.options_;
  const WebSocketOptions limits{
      .idle_timeout = options.websocket_idle_timeout,
      .handshake_timeout = options.linger_timeout,
      .write_timeout = options.write_timeout,
      .message_limit = wish.message_limit != 0 ? wish.message_limit : options.websocket_message_limit,
      .protocol = std::move(wish.protocol),
      .still_valid = connection_.validity(),
      .charge = [budget = connection_.shared_->budget, tenant = request_.principal.tenant] {
        return budget.open(tenant);
      }};
  auto socket = co_await upgrade(connection_.socket_->release(), request_, limits);
  if (socket) connection_.cut_websocket_ = (*socket)->cutter();
  co_return socket;
}

}  // namespace cove::http
