#include "client/websocket.hpp"

#include <array>
#include <boost/beast/http.hpp>
#include <boost/uuid/detail/sha1.hpp>

#include "base/random.hpp"
#include "base/text.hpp"

namespace cove::client {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t kMessageLimit = std::size_t{16} << 20;

template <typename T>
T random_value() {
  T value{};
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

std::string accept_for(const std::string& key) {
  boost::uuids::detail::sha1 sha;
  const auto text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  sha.process_bytes(text.data(), text.size());
  unsigned int digest[5];
  sha.get_digest(digest);
  std::string bytes;
  for (const auto word : digest) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>((word >> shift) & 0xff));
  }
  return base64(bytes);
}

}  // namespace

std::string encode_frame(Opcode opcode, std::string_view payload, std::uint32_t mask) {
  std::string frame;
  const auto put = [&](std::uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
      frame.push_back(static_cast<char>((value >> shift) & 0xff));
  };
  put(0x80U | static_cast<std::uint8_t>(opcode), 1);
  const std::uint64_t size = payload.size();
  if (size < 126) {
    put(0x80U | size, 1);
  } else if (size < 65536) {
    put(0x80U | 126U, 1);
    put(size, 2);
  } else {
    put(0x80U | 127U, 1);
    put(size, 8);
  }
  put(mask, 4);
  for (std::size_t i = 0; i < payload.size(); ++i)
    frame.push_back(static_cast<char>(static_cast<std::uint8_t>(payload[i]) ^ ((mask >> (8 * (3 - i % 4))) & 0xff)));
  return frame;
}

Result<std::optional<Frame>> FrameReader::next() {
  const auto byte = [this](std::size_t at) { return static_cast<std::uint8_t>(bytes_[at]); };
  if (bytes_.size() < 2) return std::optional<Frame>();
  Frame frame{.opcode = static_cast<Opcode>(byte(0) & 0x0f), .last = (byte(0) & 0x80) != 0, .payload = {}};
  if ((byte(0) & 0x70) != 0 || (byte(1) & 0x80) != 0)
    return fail(Errc::invalid, "the server violated the WebSocket protocol");
  std::uint64_t size = byte(1) & 0x7f;
  const std::size_t extra = size == 126 ? 2 : size == 127 ? 8 : 0;
  if (bytes_.size() < 2 + extra) return std::optional<Frame>();
  if (extra > 0) size = 0;
  for (std::size_t i = 0; i < extra; ++i) size = size << 8 | byte(2 + i);
  if (size > kMessageLimit) return fail(Errc::invalid, "the server sent a message that is too large");
  if (bytes_.size() < 2 + extra + size) return std::optional<Frame>();
  frame.payload = bytes_.substr(2 + extra, size);
  bytes_.erase(0, 2 + extra + size);
  return std::optional(std::move(frame));
}

WebSocket::WebSocket(Connection connection, std::string_view already) : connection_(std::move(connection)) {
  reader_.feed(already);
}

Result<WebSocket> WebSocket::open(const Options& options, const std::string& target) {
  const auto nonce = random_value<std::array<char, 16>>();
  const auto key = base64({nonce.data(), nonce.size()});
  const Request request{.target = target,
                        .headers = {{"Connection", "Upgrade"},
                                    {"Upgrade", "websocket"},
                                    {"Sec-WebSocket-Version", "13"},
                                    {"Sec-WebSocket-Key", key}}};
  COVE_TRY(auto connection, Connection::open(options.address, options.waiting));
  COVE_CHECK(connection.send_all(request_head(options, request, nullptr)));
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  beast::error_code failed;
  http::read_header(connection, buffer, parser, failed);
  if (!failed && parser.get().result() != http::status::switching_protocols) {
    http::read(connection, buffer, parser, failed);
    const auto& message = parser.get();
    Response refused{
        .status = message.result_int(), .reason = std::string(message.reason()), .headers = {}, .body = message.body()};
    COVE_CHECK(judged(options, refused));
  }
  if (failed) return fail(Errc::unavailable, fmt::format("the server did not open a terminal: {}", failed.message()));
  if (parser.get()["Sec-WebSocket-Accept"] != accept_for(key))
    return fail(Errc::io, "the response is not a WebSocket: check --url");
  const auto rest = buffer.data();
  return WebSocket(std::move(connection), {static_cast<const char*>(rest.data()), rest.size()});
}

void WebSocket::send(Opcode opcode, std::string_view payload) {
  unsent_ += encode_frame(opcode, payload, random_value<std::uint32_t>());
}

Result<> WebSocket::flush() {
  while (!unsent_.empty()) {
    COVE_TRY(const auto sent, connection_.send_now(unsent_.data(), unsent_.size()));
    if (sent == 0) break;
    unsent_.erase(0, sent);
  }
  return {};
}

Result<std::vector<WebSocket::Message>> WebSocket::receive() {
  std::vector<Message> messages;
  std::array<char, 65536> chunk;
  const auto size = connection_.receive_now(chunk.data(), chunk.size());
  if (size) reader_.feed({chunk.data(), *size});
  while (!closed_) {
    COVE_TRY(auto frame, reader_.next());
    if (!frame) break;
    switch (frame->opcode) {
      case Opcode::ping:
        send(Opcode::pong, frame->payload);
        break;
      case Opcode::pong:
        break;
      case Opcode::close:
        send(Opcode::close, std::string_view(frame->payload).substr(0, 2));
        closed_ = true;
        break;
      default:
        if (frame->opcode != Opcode::continuation) partial_ = {.text = frame->opcode == Opcode::text, .data = {}};
        partial_.data += frame->payload;
        if (partial_.data.size() > kMessageLimit)
          return fail(Errc::invalid, "the server sent a message that is too large");
        if (frame->last) messages.push_back(std::exchange(partial_, {}));
    }
  }
  // What came before the end still counts.
  if (!size && messages.empty() && !closed_) return tl::unexpected<Error>(size.error());
  return messages;
}

}  // namespace cove::client
