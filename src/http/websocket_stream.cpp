#include "http/websocket_stream.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "async/signal.hpp"
#include "base/text.hpp"
#include "http/encoding.hpp"

namespace cove::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;

namespace {

// Compression is never offered, so its code need not be compiled.
constexpr bool kDeflate = false;
constexpr std::uint16_t kTryAgainLater = 1013;            // the close code
constexpr std::size_t kKeptInput = std::size_t{1} << 20;  // of a large message nothing is kept

using Handshake = beast::http::request<beast::http::empty_body>;

Handshake to_beast(const Request& request) {
  Handshake handshake(request.method, request.target, request.version);
  for (const auto& [name, value] : request.headers) handshake.insert(name, value);
  return handshake;
}

tl::unexpected<Error> closed() {
  return fail(Errc::unavailable, "the WebSocket is closed");
}

class BeastWebSocket : public WebSocket {
 public:
  BeastWebSocket(asio::ip::tcp::socket socket, WebSocketOptions options)
      : state_(std::make_shared<State>(std::move(socket))), options_(options) {
    auto& stream = state_->stream;
    websocket::stream_base::timeout timeout{};
    timeout.handshake_timeout = options.handshake_timeout;  // the closing one; to ours there is only a write
    timeout.idle_timeout = options.idle_timeout;
    timeout.keep_alive_pings = true;
    stream.set_option(timeout);
    stream.read_message_max(options.message_limit);
    stream.auto_fragment(false);
  }
  ~BeastWebSocket() override {
    // A read or write that is still under way holds the state; without its socket it ends.
    boost::system::error_code ec;
    state_->stream.next_layer().close(ec);
  }
  BeastWebSocket(const BeastWebSocket&) = delete;
  BeastWebSocket& operator=(const BeastWebSocket&) = delete;

  Task<Result<>> accept(Handshake handshake, std::string request_id) {
    auto state = state_;
    state->stream.set_option(websocket::stream_base::decorator(
        [id = std::move(request_id), protocol = options_.protocol](websocket::response_type& response) {
          // Beast writes its own name and version if there is none.
          response.set(beast::http::field::server, "cove");
          response.set("X-Request-Id", id);
          response.set("X-Content-Type-Options", "nosniff");
          if (!protocol.empty()) response.set(beast::http::field::sec_websocket_protocol, protocol);
        }));
    auto [ec] = co_await state->stream.async_accept(handshake, asio::as_tuple(asio::use_awaitable));
    if (ec) co_return closed();
    co_return Result<>{};
  }

  Task<Result<Message>> read() override {
    auto state = state_;
    auto charge = options_.charge ? options_.charge() : Budget::Charge();
    boost::system::error_code ec;
    do {
      auto [failed, size] =
          co_await state->stream.async_read_some(state->input, 0, asio::as_tuple(asio::use_awaitable));
      if (failed) co_return closed();
      if (const auto counted = charge.grow(size); !counted) {
        co_await close(kTryAgainLater, counted.error().message);
        co_return closed();
      }
    } while (!state->stream.is_message_done());
    if (options_.still_valid && !options_.still_valid()) {
      state->stream.next_layer().close(ec);
      co_return closed();
    }
    Message message;
    message.text = state->stream.got_text();
    message.data = beast::buffers_to_string(state->input.data());
    state->input.consume(state->input.size());
    if (state->input.capacity() > kKeptInput) state->input.shrink_to_fit();
    message.charge = std::move(charge);
    co_return message;
  }

  Task<Result<>> send_text(std::string_view data) override { return send(state_, options_, Kind::text, data); }
  Task<Result<>> send_binary(std::string_view data) override { return send(state_, options_, Kind::binary, data); }

  std::function<void()> cutter() override {
    return [weak = std::weak_ptr(state_)] {
      boost::system::error_code ec;
      if (const auto state = weak.lock()) state->stream.next_layer().close(ec);
    };
  }

  Task<> close(std::uint16_t code, std::string reason) override {
    auto state = state_;
    while (state->writing) co_await state->written.wait();
    if (!state->stream.is_open()) co_return;
    const Turn turn(*state);
    if (reason.size() > 123) reason.resize(123);
    const websocket::close_reason why(static_cast<websocket::close_code>(code), reason);
    auto [ec] = co_await state->stream.async_close(why, asio::as_tuple(asio::use_awaitable));
    state->stream.next_layer().close(ec);
  }

 private:
  enum class Kind { text, binary };
  struct State {
    explicit State(asio::ip::tcp::socket socket)
        : stream(std::move(socket)), write_timer(stream.get_executor()), written(stream.get_executor()) {}
    websocket::stream<asio::ip::tcp::socket, kDeflate> stream;
    beast::flat_buffer input;
    asio::steady_timer write_timer;
    async::Signal written;
    bool writing = false;
    std::uint64_t writes = 0;
  };
  // Beast wants one write at a time.
  struct Turn {
    explicit Turn(State& s) : state(s) { state.writing = true; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      state.writing = false;
      ++state.writes;
      state.write_timer.cancel();
      state.written.notify_all();
    }
    State& state;
  };

  static Task<Result<>> send(std::shared_ptr<State> state, WebSocketOptions options, Kind kind, std::string_view data) {
    auto charge = options.charge ? options.charge() : Budget::Charge();
    if (const auto counted = charge.grow(data.size()); !counted) {
      boost::system::error_code ec;
      state->stream.next_layer().close(ec);
      co_return counted;
    }
    while (state->writing) co_await state->written.wait();
    if (!state->stream.is_open()) co_return closed();
    const Turn turn(*state);
    // Pings find a peer that is dead, not one that talks and does not listen.
    const auto fair = std::chrono::milliseconds(data.size() / 16);  // 16 kB a second for large messages
    state->write_timer.expires_after(options.write_timeout + fair);
    state->write_timer.async_wait([weak = std::weak_ptr(state), number = state->writes](boost::system::error_code ec) {
      const auto self = weak.lock();
      if (ec || !self || !self->writing || self->writes != number) return;
      self->stream.next_layer().close(ec);
    });
    state->stream.text(kind == Kind::text);
    auto [ec, size] = co_await state->stream.async_write(asio::const_buffer(data.data(), data.size()),
                                                         asio::as_tuple(asio::use_awaitable));
    if (ec) co_return closed();
    co_return Result<>{};
  }

  std::shared_ptr<State> state_;
  WebSocketOptions options_;
};

}  // namespace

std::optional<Response> websocket_problem(const Request& request) {
  const auto handshake = to_beast(request);
  if (!websocket::is_upgrade(handshake)) {
    auto response = error_response(426, "invalid", "this route wants a WebSocket");
    response.headers.emplace_back("Upgrade", "websocket");
    return response;
  }
  if (request.header_all("Sec-WebSocket-Version") != std::vector<std::string_view>{"13"}) {
    auto response = error_response(426, "invalid", "Sec-WebSocket-Version must be 13");
    response.headers.emplace_back("Sec-WebSocket-Version", "13");
    return response;
  }
  const auto keys = request.header_all("Sec-WebSocket-Key");
  const auto key = keys.size() == 1 ? from_base64(keys.front()) : std::nullopt;
  if (!key || key->size() != 16) return error_response(400, "invalid", "Sec-WebSocket-Key is not 16 bytes in base64");
  return std::nullopt;
}

Task<Result<std::unique_ptr<WebSocket>>> upgrade(asio::ip::tcp::socket socket, const Request& request,
                                                 WebSocketOptions options) {
  auto stream = std::make_unique<BeastWebSocket>(std::move(socket), options);
  auto handshake = to_beast(request);
  auto accepted = co_await stream->accept(std::move(handshake), request.id);
  if (!accepted) co_return tl::unexpected<Error>(accepted.error());
  co_return std::unique_ptr<WebSocket>(std::move(stream));
}

}  // namespace cove::http
