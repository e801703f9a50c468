#include "http/connection.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <vector>

#include "http/encoding.hpp"

namespace cove::http {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::size_t kReadSize = std::size_t{64} << 10;
constexpr std::size_t kIdleBuffer = std::size_t{4} << 10;   // kept between two requests
constexpr std::size_t kReadAhead = std::size_t{64} << 10;   // of pipelined requests, while one is being served
constexpr std::size_t kFairShare = std::size_t{256} << 10;  // bytes one connection moves before others get a turn

tl::unexpected<Error> client_is_gone() {
  return fail(Errc::unavailable, "the client is gone");
}

// "192.0.2.1"; for IPv6 the /64, which is what one client has.
std::string address_of(const asio::ip::address& address) {
  if (address.is_v6()) {
    auto v6 = address.to_v6();
    if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string();
    auto bytes = v6.to_bytes();
    std::fill(bytes.begin() + 8, bytes.end(), std::uint8_t{0});
    return asio::ip::address_v6(bytes).to_string() + "/64";
  }
  return address.to_string();
}

std::string plain_address(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

// Of one who has shown nothing that opens the server, or something that opens another.
Response keep_out(Verdict verdict, const std::string& challenge) {
  const bool known = verdict == Verdict::out_of_scope;
  auto response = known ? error_response(403, "denied", "the token lacks a scope that is needed here")
                        : error_response(401, "unauthorized", "a valid key is needed");
  std::string words = known ? "error=\"insufficient_scope\"" : "";
  if (!challenge.empty()) words += (words.empty() ? "" : ", ") + challenge;
  response.headers.emplace_back("WWW-Authenticate", words.empty() ? "Bearer" : "Bearer " + words);
  return response;
}

Response refuse(const Refusal& refusal) {
  return error_response(refusal.status, refusal.code, refusal.sentence);
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerShared> shared, tcp::socket socket)
    : shared_(std::move(shared)),
      options_(shared_->options),
      socket_(std::move(socket)),
      read_watchdog_(shared_->executor),
      write_watchdog_(shared_->executor) {
  boost::system::error_code ec;
  const auto remote = socket_.remote_endpoint(ec);
  if (!ec) {
    const auto address = plain_address(remote.address());
    peer_ = address.find(':') == std::string::npos ? address : "[" + address + "]";
    peer_ += ":" + std::to_string(remote.port());
    peer_address_ = address_of(remote.address());
    peer_is_local_ = is_loopback(remote.address());
  }
  const auto local = socket_.local_endpoint(ec);
  if (!ec) {
    local_address_ = plain_address(local.address());
    local_port_ = local.port();
  }
}

Connection::~Connection() = default;

void Connection::close() {
  boost::system::error_code ec;
  socket_.close(ec);
}

void Connection::reset() {
  boost::system::error_code ec;
  socket_.set_option(asio::socket_base::linger(true, 0), ec);
  socket_.close(ec);
}

void Connection::close_if_idle() {
  if (idle_) close();
}

void Connection::cut() {
  if (cut_websocket_) cut_websocket_();
  reset();
  client_left();
}

std::function<bool()> Connection::validity() const {
  if (exchange_ == nullptr || !keyed_) return {};
  return [shared = shared_, principal = exchange_->request().principal] {
    return shared->authenticator.still_valid(principal);
  };
}

void Connection::revalidate() {
  if (exchange_ == nullptr || !keyed_) return;
  if (shared_->authenticator.still_valid(exchange_->request().principal)) return;
  ++shared_->counts.revoked;
  // An end that the client sees as one, after what it was sent; an answer that had a length is visibly not whole.
  if (cut_websocket_) cut_websocket_();
  close();
  client_left();
}

void Connection::consume(std::size_t count) {
  consumed_ += count;
  if (consumed_ == buffer_.size()) {
    buffer_.clear();
    consumed_ = 0;
  } else if (consumed_ >= kReadSize) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
}

// --- waiting -----------------------------------------------------------------------------------------------------

// A timer that has fired may have its handler queued already when it is cancelled: the generation tells it that it is
// too late.
void Connection::arm_read(Clock::time_point deadline) {
  const auto generation = ++read_watchdog_.generation;
  read_watchdog_.timer.expires_at(deadline);
  read_watchdog_.timer.async_wait([weak = weak_from_this(), generation](boost::system::error_code ec) {
    const auto self = weak.lock();
    if (!ec && self && self->read_watchdog_.generation == generation) self->close();
  });
}

void Connection::arm_write(int queued_before) {
  const auto generation = ++write_watchdog_.generation;
  write_watchdog_.timer.expires_after(options_->write_timeout);
  write_watchdog_.timer.async_wait([weak = weak_from_this(), generation, queued_before](boost::system::error_code ec) {
    const auto self = weak.lock();
    if (ec || !self || self->write_watchdog_.generation != generation) return;
    // A slow client is not a dead one: the kernel calls the socket writable only when a third of a large buffer is
    // free, so ask whether the client took anything at all.
    const int queued_now = self->queued();
    if (queued_now >= 0 && queued_now < queued_before) return self->arm_write(queued_now);
    self->reset();
  });
}

void Connection::disarm(Watchdog& watchdog) {
  ++watchdog.generation;
  watchdog.timer.cancel();
}

int Connection::queued() const {
  int bytes = 0;
  // native_handle() is not const in Asio, and does not change anything.
  auto& socket = const_cast<tcp::socket&>(socket_);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  if (!socket.is_open() || ::ioctl(socket.native_handle(), SIOCOUTQ, &bytes) != 0) return -1;
  return bytes;
}

ssize_t Connection::receive_now(char* data, std::size_t size) {
  while (socket_.is_open() && !eof_) {
    const auto count = ::recv(socket_.native_handle(), data, size, MSG_DONTWAIT);
    if (count > 0 || (count < 0 && errno == EAGAIN)) return count;
    if (count == 0) eof_ = true;
    if (count < 0 && errno != EINTR) close();
  }
  return 0;
}

Task<Result<>> Connection::readable(Clock::time_point deadline) {
  unyielded_ = 0;
  arm_read(deadline);
  auto [ec] = co_await socket_.async_wait(tcp::socket::wait_read, asio::as_tuple(asio::use_awaitable));
  disarm(read_watchdog_);
  if (!ec) co_return Result<>{};
  close();
  co_return client_is_gone();
}

Task<> Connection::give_way(std::size_t moved) {
  unyielded_ += moved;
  if (unyielded_ < kFairShare) co_return;
  unyielded_ = 0;
  co_await asio::post(shared_->executor, asio::use_awaitable);
}

Task<Result<std::size_t>> Connection::receive(char* data, std::size_t size, Clock::time_point deadline) {
  for (;;) {
    const auto count = receive_now(data, size);
    if (count > 0) {
      co_await give_way(static_cast<std::size_t>(count));
      co_return static_cast<std::size_t>(count);
    }
    if (!socket_.is_open()) co_return client_is_gone();
    if (eof_) co_return std::size_t{0};
    auto waited = co_await readable(deadline);
    if (!waited) co_return tl::unexpected<Error>(waited.error());
  }
}

Task<Result<std::size_t>> Connection::receive_more(Clock::time_point deadline) {
  for (;;) {
    const auto count = receive_now(shared_->scratch.data(), shared_->scratch.size());
    if (count > 0) {
      buffer_.append(shared_->scratch, 0, static_cast<std::size_t>(count));
      co_await give_way(static_cast<std::size_t>(count));
      co_return static_cast<std::size_t>(count);
    }
    if (!socket_.is_open()) co_return client_is_gone();
    if (eof_) co_return std::size_t{0};
    auto waited = co_await readable(deadline);
    if (!waited) co_return tl::unexpected<Error>(waited.error());
  }
}

Task<Result<>> Connection::write(std::string_view bytes) {
  return write(Buffers{asio::const_buffer(bytes.data(), bytes.size())});
}

Task<Result<>> Connection::write(Buffers buffers) {
  std::size_t first = 0;
  for (;;) {
    while (first < buffers.size() && buffers[first].size() == 0) ++first;
    if (first == buffers.size()) co_return Result<>{};
    if (!socket_.is_open()) co_return client_is_gone();

    std::array<iovec, std::tuple_size_v<Buffers>> vectors{};
    for (std::size_t i = first; i < buffers.size(); ++i) {
      vectors[i - first].iov_base = const_cast<void*>(buffers[i].data());  // NOLINT: iovec serves both directions
      vectors[i - first].iov_len = buffers[i].size();
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = buffers.size() - first;
    const auto count = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      auto rest = static_cast<std::size_t>(count);
      for (std::size_t i = first; i < buffers.size(); ++i) {
        const auto part = std::min(rest, buffers[i].size());
        buffers[i] += part;
        rest -= part;
      }
      co_await give_way(static_cast<std::size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      close();
      client_left();
      co_return client_is_gone();
    }
    unyielded_ = 0;
    arm_write(queued());
    auto [ec] = co_await socket_.async_wait(tcp::socket::wait_write, asio::as_tuple(asio::use_awaitable));
    disarm(write_watchdog_);
    if (ec) {
      close();
      client_left();
      co_return client_is_gone();
    }
  }
}

// --- has the client left? ----------------------------------------------------------------------------------------

// While a handler works nobody reads from the socket; this does, so that an end of the stream is noticed. What is read
// belongs to the next request and stays in the buffer; when that is full, the end is only noticed by writing.
void Connection::watch() {
  if (watching_ || gone_ || eof_ || !socket_.is_open() || exchange_ == nullptr) return;
  if (buffer_.size() - consumed_ >= kReadAhead) return;
  watching_ = true;
  const auto generation = ++watch_generation_;
  socket_.async_wait(tcp::socket::wait_read,
                     asio::bind_cancellation_slot(watch_cancellation_.slot(),
                                                  [weak = weak_from_this(), generation](boost::system::error_code ec) {
                                                    if (const auto self = weak.lock()) self->watched(generation, ec);
                                                  }));
}

void Connection::watched(std::uint64_t generation, boost::system::error_code ec) {
  // Too late: by now somebody else reads from the socket, and bytes taken here would get out of order.
  if (generation != watch_generation_) return;
  watching_ = false;
  if (ec || !socket_.is_open()) return;
  const auto count = receive_now(shared_->scratch.data(), shared_->scratch.size());
  if (count > 0) buffer_.append(shared_->scratch, 0, static_cast<std::size_t>(count));
  if (eof_ || !socket_.is_open())
    client_left();
  else
    watch();
}

void Connection::stop_watching() {
  ++watch_generation_;
  if (watching_) watch_cancellation_.emit(asio::cancellation_type::all);
  watching_ = false;
}

void Connection::client_left() {
  if (gone_) return;
  gone_ = true;
  if (exchange_ != nullptr) exchange_->changed().notify_all();
}

// --- bodies ------------------------------------------------------------------------------------------------------

// The client may be silent for a while, and on the whole not be slower than the minimal rate. Only time we waited for
// it counts.
Connection::Clock::time_point Connection::body_deadline() const {
  const auto idle = std::chrono::duration_cast<Clock::duration>(options_->body_idle_timeout);
  const std::chrono::duration<double> earned(static_cast<double>(body_bytes_) /
                                             static_cast<double>(std::max<std::uint64_t>(1, body_rate_)));
  const auto budget = idle + std::chrono::duration_cast<Clock::duration>(earned) - body_waited_;
  return Clock::now() + std::min(idle, budget);
}

Task<Result<std::size_t>> Connection::read_body(char* data, std::size_t size) {
  while (!body_.done() && size > 0) {
    if (!input().empty()) {
      const auto step = body_.decode(input(), data, size);
      if (!step) {
        keep_alive_ = false;
        co_return fail(Errc::invalid, "the body is not chunked as it should be");
      }
      consume(step->used);
      body_bytes_ += step->produced;
      if (step->produced > 0) co_return step->produced;
      continue;
    }
    if (expect_pending_) {
      expect_pending_ = false;
      auto told = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
      if (!told) co_return tl::unexpected<Error>(told.error());
    }
    const auto before = Clock::now();
    const auto deadline = body_deadline();
    const auto raw = static_cast<std::size_t>(std::min<std::uint64_t>(body_.raw_left(), size));
    Result<std::size_t> count;
    if (raw > 0) {
      count = co_await receive(data, raw, deadline);
    } else {
      count = co_await receive_more(deadline);
    }
    body_waited_ += Clock::now() - before;
    if (!count || *count == 0) {
      // In the middle of the body, so also an orderly end is one that leaves no request to answer.
      close();
      client_left();
      co_return client_is_gone();
    }
    if (raw > 0) {
      body_.skip(*count);
      body_bytes_ += *count;
      co_return *count;
    }
  }
  co_return std::size_t{0};
}

Task<bool> Connection::discard_body() {
  // A client that waits for "100 Continue" has its answer now and may send the body or not: nobody can tell.
  if (expect_pending_) co_return false;
  std::vector<char> bin(kReadSize);
  const auto until = Clock::now() + options_->discard_timeout;
  const auto limit = body_bytes_ + options_->discard_limit;
  while (!body_.done()) {
    if (body_bytes_ > limit || Clock::now() > until) co_return false;
    const auto count = co_await read_body(bin.data(), bin.size());
    if (!count) co_return false;
  }
  co_return true;
}

// Closing a socket that has unread input resets it, and a reset can overtake the answer: say that nothing more comes,
// and let the other side close first.
Task<> Connection::linger() {
  if (!socket_.is_open() || upgraded_) co_return;
  boost::system::error_code ec;
  socket_.shutdown(tcp::socket::shutdown_send, ec);
  std::vector<char> bin(kReadSize);
  const auto deadline = Clock::now() + options_->linger_timeout;
  while (!eof_ && socket_.is_open() && Clock::now() < deadline) {
    const auto count = co_await receive(bin.data(), bin.size(), deadline);
    if (!count) break;
  }
  close();
}

// --- requests ----------------------------------------------------------------------------------------------------

Task<> Connection::run() {
  auto first = First::yes;
  for (;;) {
    options_ = shared_->options;
    auto next = co_await next_head(first);
    first = First::no;
    if (std::holds_alternative<std::monostate>(next)) break;
    Head head;
    std::optional<Refusal> refused;
    if (auto* refusal = std::get_if<Refusal>(&next)) {
      refused = std::move(*refusal);
    } else {
      head = std::get<Head>(std::move(next));
    }
    const bool again = co_await serve(std::move(head), std::move(refused));
    if (!again) break;
  }
  co_await linger();
}

Task<std::variant<std::monostate, Head, Refusal>> Connection::next_head(First first) {
  const HeadLimits limits{
      .head = options_->head_limit, .target = options_->target_limit, .lines = options_->header_lines};
  HeadScanner scanner(limits);
  bool begun = false;
  auto deadline = Clock::now() + (first == First::yes ? options_->head_timeout : options_->idle_timeout);
  for (;;) {
    if (!begun) {
      // Old clients send an empty line after a body.
      if (input().starts_with("\r\n")) consume(2);
      const auto rest = input();
      if (!rest.empty() && rest != "\r") {
        begun = true;
        deadline = std::min(deadline, Clock::now() + options_->head_timeout);
      }
    }
    if (begun) {
      auto scanned = scanner.scan(input());
      if (auto* refusal = std::get_if<Refusal>(&scanned)) co_return std::move(*refusal);
      if (const auto size = std::get<std::optional<std::size_t>>(scanned)) {
        auto parsed = parse_head(input().substr(0, *size), limits);
        consume(*size);
        if (auto* refusal = std::get_if<Refusal>(&parsed)) co_return std::move(*refusal);
        co_return std::get<Head>(std::move(parsed));
      }
    }
    if (!begun && shared_->draining && first == First::no) co_return std::monostate{};
    // The scanner counts from the beginning of the head: it must stay where it is while it grows.
    if (consumed_ > 0) {
      buffer_.erase(0, consumed_);
      consumed_ = 0;
    }
    idle_ = !begun && first == First::no;  // who has only just come is answered before it is sent away
    if (buffer_.empty() && buffer_.capacity() > kIdleBuffer) std::string().swap(buffer_);
    const auto count = co_await receive_more(deadline);
    idle_ = false;
    if (!count || *count == 0) {
      if (begun && socket_.is_open()) co_return Refusal{.sentence = "the head of the request is cut short"};
      co_return std::monostate{};
    }
  }
}

// A program of this machine. What a proxy passes on comes from this machine as well, and says for whom.
bool Connection::comes_from_here(const Request& request) const {
  constexpr std::string_view kOfProxies[] = {"Forwarded",         "X-Forwarded-For", "X-Forwarded-Host",
                                             "X-Forwarded-Proto", "X-Real-IP",       "Via"};
  return peer_is_local_ &&
         std::ranges::none_of(kOfProxies, [&](std::string_view name) { return !request.header_all(name).empty(); });
}

std::optional<Response> Connection::admit(Head& head, const Router::Route*& route) {
  auto& request = head.request;
  auto found = shared_->router.find(request.method, request.path);
  auto* match = std::get_if<Router::Found>(&found);

  const Gate gate{.check_host = options_->check_host,
                  .allowed_hosts = options_->allowed_hosts,
                  .allowed_origins = options_->allowed_origins,
                  .local_address = local_address_,
                  .local_port = local_port_};
  const bool navigable = match != nullptr && match->route->options.navigable;
  if (auto refusal = check_gate(gate, head, navigable ? Navigation::allowed : Navigation::refused))
    return refuse(*refusal);
  if (const auto* malformed = std::get_if<Router::Malformed>(&found)) {
    return error_response(400, "invalid", malformed->sentence);
  }

  // Who has no key learns nothing, not even which routes there are.
  const auto access = match == nullptr ? Access::key : match->route->options.access;
  keyed_ = access == Access::key || (access == Access::key_or_loopback && !comes_from_here(request));
  if (keyed_) {
    const auto credentials =
        parse_credentials(request.header_all("Authorization"), request.header_all("X-API-Key"), head.key);
    auto decision = authenticate(shared_->authenticator, credentials);
    if (decision.verdict != Verdict::allowed) {
      const bool counted = decision.verdict == Verdict::wrong;
      if (counted && !shared_->throttle.admit(peer_address_, Clock::now())) {
        auto response = error_response(429, "quota", "too many wrong keys");
        response.headers.emplace_back("Retry-After", "1");
        return response;
      }
      return keep_out(decision.verdict, options_->challenge);
    }
    request.principal = std::move(decision.principal);
    known_ = request.admitted = true;
  }
  if (const auto* moved = std::get_if<Router::Moved>(&found)) {
    Response response{.status = 307, .content_type = ""};
    const auto query = request.target.find('?');
    response.headers.emplace_back("Location", (head.key.empty() ? "" : "/" + head.key) + moved->path +
                                                  (query == std::string::npos ? "" : request.target.substr(query)));
    return response;
  }
  if (const auto* not_allowed = std::get_if<Router::NotAllowed>(&found)) {
    auto response = error_response(405, "method_not_allowed", "this method is not allowed here");
    response.headers.emplace_back("Allow", not_allowed->allow);
    return response;
  }
  if (match == nullptr) return error_response(404, "not_found", "there is no such route");

  for (const auto& encoding : request.header_all("Content-Encoding")) {
    if (!encoding.empty() && !equals_ignoring_case(encoding, "identity")) {
      return error_response(415, "unsupported", "Content-Encoding is not supported: send the body as it is");
    }
  }
  if (head.content_length > match->route->options.body_limit) {
    return error_response(413, "too_large", "the body is larger than this route takes");
  }
  route = match->route;
  request.params = std::move(match->params);
  return std::nullopt;
}

Task<bool> Connection::serve(Head head, std::optional<Refusal> refused) {
  const auto started = Clock::now();
  head.request.id = request_id(head.request);
  head.request.peer = peer_;
  const auto shown_target = (head.key.empty() ? "" : "/cove_***") + redact_keys(head.request.target);

  body_ = head.chunked ? BodyDecoder::of_chunks() : BodyDecoder::of_length(head.content_length);
  content_length_ = head.chunked ? std::nullopt : std::optional(head.content_length);
  body_bytes_ = 0;
  body_waited_ = {};
  body_rate_ = options_->body_min_rate;
  gone_ = eof_ && input().empty();
  keep_alive_ = head.keep_alive && !refused;
  expect_pending_ = head.expect_continue && !body_.done();

  const Router::Route* route = nullptr;
  std::optional<Response> refusal = refused ? refuse(*refused) : admit(head, route);
  Exchange exchange(*this, std::move(head.request), route == nullptr ? 0 : route->options.body_limit);
  struct Attach {
    Connection& connection;
    Attach(Connection& c, Exchange& e) : connection(c) { c.exchange_ = &e; }
    ~Attach() {
      connection.stop_watching();
      connection.exchange_ = nullptr;
    }
  };
  std::optional<Attach> attach(std::in_place, *this, exchange);

  std::exception_ptr escaped;
  if (refusal) {
    auto sent = co_await exchange.send(std::move(*refusal));
    if (!sent) close();
  } else {
    if (body_.done()) watch();
    try {
      auto task = route->handler(exchange);
      co_await std::move(task);
    } catch (...) {
      escaped = std::current_exception();
    }
  }
  if (escaped) {
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) {
      reset();
      log(exchange, shown_target, started);
      std::rethrow_exception(escaped);
    }
    if (shared_->hooks.on_escape) shared_->hooks.on_escape(route->pattern, escaped);
  }
  if (!exchange.answered() && socket_.is_open()) {
    Response response = error_response(500, "internal", "something went wrong here");
    if (exchange.over_limit_) response = error_response(413, "too_large", "the body is larger than this route takes");
    if (exchange.malformed_) response = error_response(400, "invalid", "the body is malformed");
    auto sent = co_await exchange.send(std::move(response));
    if (!sent) close();
  }
  if (exchange.answered() && !exchange.finished_ && !upgraded_) reset();
  log(exchange, shown_target, started);
  attach.reset();

  if (upgraded_ || !socket_.is_open() || exchange.malformed_) co_return false;
  const bool discarded = co_await discard_body();
  co_return discarded&& keep_alive_;
}

void Connection::log(const Exchange& exchange, const std::string& shown_target, Clock::time_point started) {
  if (!shared_->hooks.access_log) return;
  const auto& request = exchange.request();
  AccessRecord record;
  record.id = request.id;
  record.peer = peer_;
  record.tenant = request.admitted ? request.principal.tenant : "-";
  record.method = request.method_text;
  record.target = shown_target;
  record.status = exchange.status();
  record.bytes_in = exchange.bytes_in();
  record.bytes_out = exchange.bytes_out();
  record.duration = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - started);
  record.user_agent = redact_keys(request.header("User-Agent"));
  shared_->hooks.access_log(record);
}

}  // namespace cove::http
