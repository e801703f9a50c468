#include "http/connection.hpp"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <vector>

#include "http/encoding.hpp"
#include "http/request_check.hpp"

namespace cove::http {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::size_t kReadSize = std::size_t{64} << 10;
constexpr std::size_t kIdleBuffer = std::size_t{4} << 10;  // kept between two requests
constexpr std::size_t kReadAhead = std::size_t{64} << 10;  // of pipelined requests, while one is being served

}  // namespace

Connection::Connection(std::shared_ptr<ServerShared> shared, tcp::socket socket, std::shared_ptr<const Binding> binding)
    : shared_(std::move(shared)),
      options_(shared_->options),
      binding_(std::move(binding)),
      peer_(peer_of(socket)),
      socket_(std::make_shared<TimedSocket>(shared_->executor, std::move(socket))) {}

Connection::~Connection() = default;

void Connection::close_if_idle() {
  if (idle_) socket_->close();
}

void Connection::cut() {
  if (cut_websocket_) cut_websocket_();
  socket_->reset();
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
  // The client sees an orderly end after what was sent so far; with a length, that is visibly incomplete.
  if (cut_websocket_) cut_websocket_();
  socket_->close();
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

// --- bytes -------------------------------------------------------------------------------------------------------

Task<Result<std::size_t>> Connection::receive_more(Clock::time_point deadline) {
  for (;;) {
    const auto count = socket_->receive_now(shared_->scratch.data(), shared_->scratch.size());
    if (count > 0) {
      buffer_.append(shared_->scratch, 0, static_cast<std::size_t>(count));
      co_await socket_->give_way(static_cast<std::size_t>(count));
      co_return static_cast<std::size_t>(count);
    }
    if (!socket_->is_open()) co_return client_is_gone();
    if (socket_->at_end()) co_return std::size_t{0};
    auto waited = co_await socket_->readable(deadline);
    if (!waited) co_return tl::unexpected<Error>(waited.error());
  }
}

Task<Result<>> Connection::write(std::string_view bytes) {
  return write(Buffers{asio::const_buffer(bytes.data(), bytes.size())});
}

Task<Result<>> Connection::write(Buffers buffers) {
  auto sent = co_await socket_->write(buffers, options_->write_timeout);
  if (!sent) client_left();
  co_return sent;
}

// --- has the client left? ----------------------------------------------------------------------------------------

// Reads from the socket while a handler works, so that the end of the stream is noticed. What is read belongs to the
// next request and stays in the buffer; when that is full, only a write notices the end.
void Connection::watch() {
  if (gone_ || exchange_ == nullptr || buffer_.size() - consumed_ >= kReadAhead) return;
  socket_->watch([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->watched();
  });
}

void Connection::watched() {
  const auto count = socket_->receive_now(shared_->scratch.data(), shared_->scratch.size());
  if (count > 0) buffer_.append(shared_->scratch, 0, static_cast<std::size_t>(count));
  if (socket_->at_end() || !socket_->is_open())
    client_left();
  else
    watch();
}

void Connection::client_left() {
  if (gone_) return;
  gone_ = true;
  if (exchange_ != nullptr) exchange_->changed().notify_all();
}

// --- bodies ------------------------------------------------------------------------------------------------------

// A client may pause for the idle timeout, and must reach the minimal rate on average. Only time spent waiting for it
// counts.
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
        co_return fail(Errc::invalid, "the chunked encoding of the body is malformed");
      }
      consume(step->used);
      body_bytes_ += step->produced;
      if (step->produced > 0) co_return step->produced;
      continue;
    }
    if (expect_pending_) {
      expect_pending_ = false;
      auto sent = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
      if (!sent) co_return tl::unexpected<Error>(sent.error());
    }
    const auto before = Clock::now();
    const auto deadline = body_deadline();
    const auto raw = static_cast<std::size_t>(std::min<std::uint64_t>(body_.raw_left(), size));
    Result<std::size_t> count;
    if (raw > 0) {
      count = co_await socket_->receive(data, raw, deadline);
    } else {
      count = co_await receive_more(deadline);
    }
    body_waited_ += Clock::now() - before;
    if (!count || *count == 0) {
      // Even an orderly end leaves no request to answer in the middle of a body.
      socket_->close();
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
  // A client that waits for "100 Continue" has its answer now; whether it still sends the body cannot be known.
  if (expect_pending_) co_return false;
  if (body_.done()) co_return true;
  std::vector<char> discarded(kReadSize);
  const auto until = Clock::now() + options_->discard_timeout;
  const auto limit = body_bytes_ + options_->discard_limit;
  while (!body_.done()) {
    if (body_bytes_ > limit || Clock::now() > until) co_return false;
    const auto count = co_await read_body(discarded.data(), discarded.size());
    if (!count) co_return false;
  }
  co_return true;
}

// Closing a socket that has unread input resets it, and a reset can overtake the answer. So this only ends our side and
// lets the client close first.
Task<> Connection::linger() {
  if (!socket_->is_open() || upgraded_) co_return;
  socket_->finish_sending();
  std::vector<char> discarded(kReadSize);
  const auto deadline = Clock::now() + options_->linger_timeout;
  while (!socket_->at_end() && socket_->is_open() && Clock::now() < deadline) {
    const auto count = co_await socket_->receive(discarded.data(), discarded.size(), deadline);
    if (!count) break;
  }
  socket_->close();
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
    // The scanner's offsets count from the start of the head, so the head must stay at the start of the buffer.
    if (consumed_ > 0) {
      buffer_.erase(0, consumed_);
      consumed_ = 0;
    }
    idle_ = !begun && first == First::no;  // a new connection gets one answer even while draining
    if (buffer_.empty() && buffer_.capacity() > kIdleBuffer) std::string().swap(buffer_);
    const auto count = co_await receive_more(deadline);
    idle_ = false;
    if (!count || *count == 0) {
      if (begun && socket_->is_open()) co_return Refusal{.sentence = "the head of the request is cut short"};
      co_return std::monostate{};
    }
  }
}

Task<bool> Connection::serve(Head head, std::optional<Refusal> refused) {
  const auto started = Clock::now();
  head.request.id = request_id(head.request);
  head.request.peer = peer_.endpoint;
  const auto shown_target = (head.key.empty() ? "" : "/cove_***") + redact_target(head.request.target);

  body_ = head.chunked ? BodyDecoder::of_chunks() : BodyDecoder::of_length(head.content_length);
  content_length_ = head.chunked ? std::nullopt : std::optional(head.content_length);
  body_bytes_ = 0;
  body_waited_ = {};
  body_rate_ = options_->body_min_rate;
  gone_ = socket_->at_end() && input().empty();
  keep_alive_ = head.keep_alive && !refused;
  expect_pending_ = head.expect_continue && !body_.done();

  const Router::Route* route = nullptr;
  std::optional<Response> refusal;
  std::string page;
  if (refused) {
    refusal = response_of(*refused);
  } else {
    auto checked = check_request(*shared_, *options_, peer_, binding_.get(), head);
    route = checked.route;
    refusal = std::move(checked.refusal);
    keyed_ = checked.keyed;
    page = std::move(checked.page);
    if (head.request.admitted) known_ = true;
  }
  Exchange exchange(*this, std::move(head.request), route == nullptr ? 0 : route->options.body_limit);
  exchange.page_ = std::move(page);
  struct Attach {
    Connection& connection;
    Attach(Connection& c, Exchange& e) : connection(c) { c.exchange_ = &e; }
    ~Attach() {
      connection.socket_->stop_watching();
      connection.exchange_ = nullptr;
    }
  };
  std::optional<Attach> attach(std::in_place, *this, exchange);

  std::exception_ptr escaped;
  if (refusal) {
    auto sent = co_await exchange.send(std::move(*refusal));
    if (!sent) socket_->close();
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
      socket_->reset();
      log(exchange, shown_target, started);
      std::rethrow_exception(escaped);
    }
    if (shared_->hooks.on_escape) shared_->hooks.on_escape(route->pattern, escaped);
  }
  if (!exchange.answered() && socket_->is_open()) {
    Response response = error_response(500, "internal", "internal error: the server log has the details");
    if (exchange.over_limit_) response = error_response(413, "too_large", "the body is larger than this route accepts");
    if (exchange.malformed_) response = error_response(400, "invalid", "the body is malformed");
    auto sent = co_await exchange.send(std::move(response));
    if (!sent) socket_->close();
  }
  if (exchange.answered() && !exchange.finished_ && !upgraded_) socket_->reset();
  log(exchange, shown_target, started);
  attach.reset();

  if (upgraded_ || !socket_->is_open() || exchange.malformed_) co_return false;
  const bool read_whole = co_await discard_body();
  co_return read_whole&& keep_alive_;
}

void Connection::log(const Exchange& exchange, const std::string& shown_target, Clock::time_point started) {
  if (!shared_->hooks.access_log) return;
  const auto& request = exchange.request();
  AccessRecord record;
  record.id = request.id;
  record.peer = peer_.endpoint;
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
