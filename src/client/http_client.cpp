#include "client/http_client.hpp"

#include <array>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>

namespace cove::client {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using Parser = http::response_parser<http::buffer_body>;

constexpr std::size_t kChunk = 64U << 10;
constexpr std::size_t kAnswerLimit = std::size_t{256} << 20;  // of an answer that is held in memory
constexpr std::chrono::seconds kSilence{90};                  // after which a stream of events counts as broken
constexpr std::uint32_t kHeadLimit = 64U << 10;

tl::unexpected<Error> broken(const beast::error_code& failed) {
  if (failed == boost::system::errc::interrupted)
    return tl::unexpected<Error>(Error{.code = Errc::unavailable, .message = "interrupted", .sys_errno = EINTR});
  if (failed == boost::system::errc::timed_out)
    return tl::unexpected<Error>(
        Error{.code = Errc::unavailable, .message = "the server did not answer in time", .sys_errno = ETIMEDOUT});
  if (failed == http::error::end_of_stream || failed == http::error::partial_message)
    return fail(Errc::unavailable, "the server closed the connection before the response was complete");
  return tl::unexpected<Error>(
      Error{.code = Errc::unavailable,
            .message = fmt::format("lost the connection to the server: {}", failed.message()),
            .sys_errno = failed.category() == boost::system::system_category() ? failed.value() : 0});
}

Response head_of(const Parser& parser) {
  const auto& message = parser.get();
  Response response{.status = message.result_int(), .reason = std::string(message.reason()), .headers = {}, .body = {}};
  for (const auto& field : message) response.headers.emplace_back(field.name_string(), field.value());
  return response;
}

void prepare(Parser& parser, const Request& request) {
  parser.header_limit(kHeadLimit);
  parser.body_limit(boost::none);
  if (request.method == "HEAD") parser.skip(true);
}

// Some bytes of the body, empty at its end.
Result<std::string_view> body_piece(Connection& connection, beast::flat_buffer& buffer, Parser& parser,
                                    std::span<char> chunk) {
  while (!parser.is_done()) {
    parser.get().body().data = chunk.data();
    parser.get().body().size = chunk.size();
    parser.get().body().more = true;
    beast::error_code failed;
    http::read_some(connection, buffer, parser, failed);
    if (failed == http::error::need_buffer) failed = {};
    if (failed) return broken(failed);
    const auto taken = chunk.size() - parser.get().body().size;
    if (taken > 0) return std::string_view(chunk.data(), taken);
  }
  return std::string_view();
}

Result<> send_upload(Connection& connection, const Upload& upload) {
  std::vector<char> chunk(kChunk);
  std::uint64_t sent = 0;
  while (true) {
    COVE_TRY(const auto size, upload.source(chunk));
    const std::string_view bytes(chunk.data(), size);
    if (upload.size) {
      sent += size;
      if (sent > *upload.size || (size == 0 && sent < *upload.size))
        return fail(Errc::io, "the file changed size while it was being sent");
      if (size == 0) return {};
      COVE_CHECK(connection.send_all(bytes));
      continue;
    }
    if (size == 0) return connection.send_all("0\r\n\r\n");
    COVE_CHECK(connection.send_all(fmt::format("{:x}\r\n", size)));
    COVE_CHECK(connection.send_all(bytes));
    COVE_CHECK(connection.send_all("\r\n"));
  }
}

// Whether the other side hung up, as a server does with connections that have been idle.
bool hung_up(const beast::error_code& failed) {
  return failed == http::error::end_of_stream || failed == boost::system::errc::connection_reset ||
         failed == boost::system::errc::broken_pipe;
}

// A key may also stand at the front of the path.
bool has_key(const Options& options) {
  return !options.key.empty() || options.address.prefix.find("/cove_") != std::string::npos;
}

}  // namespace

std::string_view Response::header(std::string_view name) const {
  for (const auto& [own, value] : headers) {
    if (beast::iequals(own, name)) return value;
  }
  return "";
}

std::string request_head(const Options& options, const Request& request, const Upload* upload) {
  auto head = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: cove\r\n", request.method,
                          options.address.prefix, request.target, options.address.authority());
  if (!options.key.empty()) head += fmt::format("Authorization: Bearer {}\r\n", options.key);
  if (!request.content_type.empty()) head += fmt::format("Content-Type: {}\r\n", request.content_type);
  for (const auto& [name, value] : request.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (upload != nullptr && !upload->size)
    head += "Transfer-Encoding: chunked\r\n";
  else if (upload != nullptr)
    head += fmt::format("Content-Length: {}\r\n", *upload->size);
  else if (request.method != "GET" && request.method != "HEAD" && request.method != "DELETE")
    head += fmt::format("Content-Length: {}\r\n", request.body.size());
  return head + "\r\n";
}

Result<> judged(const Options& options, const Response& response) {
  if (response.status < 300) return {};
  std::string sentence;
  boost::system::error_code failed;
  const auto body = boost::json::parse(response.body, failed);
  if (!failed && body.is_object()) {
    const auto* said = body.as_object().if_contains("error");
    if (said != nullptr && said->is_string()) sentence = said->as_string();
  }
  if (sentence.empty()) sentence = fmt::format("the server responded {} {}", response.status, response.reason);
  switch (response.status) {
    case 401:
      return fail(Errc::denied, !has_key(options)
                                    ? "the server requires a key: give --key or set COVE_API_KEY"
                                    : "the server does not accept this key: it is wrong or was revoked (--key, "
                                      "COVE_API_KEY)");
    case 403:
      return fail(Errc::denied, sentence);
    case 404:
      return fail(Errc::not_found, sentence);
    case 409:
      return fail(Errc::conflict, sentence);
    case 413:
      return fail(Errc::over_limit, sentence);
    case 429:
      return fail(Errc::quota, sentence);
    case 503:
      return fail(Errc::unavailable, sentence);
    default:
      return fail(response.status >= 500 ? Errc::io : Errc::invalid, sentence);
  }
}

Result<Response> Client::attempt(const Request& request, const Upload* upload, const Download* download,
                                 bool& unanswered) {
  unanswered = false;
  if (connection_ && connection_->stale()) connection_.reset();
  const bool fresh = !connection_;
  if (fresh) {
    COVE_TRY(connection_, Connection::open(options_.address, options_.waiting));
    buffer_.clear();
  }
  auto connection = std::exchange(connection_, std::nullopt);  // kept only if the whole exchange goes well
  connection->set_waiting(options_.waiting);
  auto sent = connection->send_all(request_head(options_, request, upload) + request.body);
  if (sent && upload != nullptr) sent = send_upload(*connection, *upload);
  // A server may answer before it has read everything: its answer says more than a broken pipe.
  if (!sent && sent.error().sys_errno != EPIPE && sent.error().sys_errno != ECONNRESET)
    return tl::unexpected<Error>(sent.error());

  Parser parser;
  prepare(parser, request);
  beast::error_code failed;
  http::read_header(*connection, buffer_, parser, failed);
  if (failed) {
    unanswered = !fresh && upload == nullptr && hung_up(failed);
    return broken(failed);
  }
  auto response = head_of(parser);
  std::vector<char> chunk(kChunk);
  const bool passed_on = download != nullptr && response.status < 300;
  if (passed_on) {
    const auto length = parser.content_length();
    COVE_CHECK(download->begin(length ? std::optional<std::uint64_t>(*length) : std::nullopt));
  }
  while (true) {
    COVE_TRY(const auto piece, body_piece(*connection, buffer_, parser, chunk));
    if (piece.empty()) break;
    if (passed_on) {
      COVE_CHECK(download->take(piece));
      continue;
    }
    if (response.body.size() + piece.size() > kAnswerLimit) return fail(Errc::over_limit, "the response is too large");
    response.body += piece;
  }
  if (sent && parser.keep_alive()) connection_ = std::move(connection);
  return response;
}

Result<Response> Client::send(const Request& request, const Upload* upload, const Download* download) {
  bool unanswered = false;
  auto response = attempt(request, upload, download, unanswered);
  // The server closed the idle connection as the request was sent, and has not read it.
  if (!response && unanswered) return attempt(request, upload, download, unanswered);
  return response;
}

Result<Response> Client::ask(const Request& request, const Upload* upload, const Download* download) {
  COVE_TRY(auto response, send(request, upload, download));
  COVE_CHECK(judged(options_, response));
  return response;
}

struct EventStream::Body {
  explicit Body(Connection opened) : connection(std::move(opened)), chunk(kChunk) {}

  Connection connection;
  beast::flat_buffer buffer;
  Parser parser;
  std::vector<char> chunk;
};

EventStream::EventStream(std::unique_ptr<Body> body) : body_(std::move(body)) {}
EventStream::EventStream(EventStream&&) noexcept = default;
EventStream& EventStream::operator=(EventStream&&) noexcept = default;
EventStream::~EventStream() = default;

Result<std::optional<Event>> EventStream::next() {
  while (true) {
    if (auto event = parser_.next()) return event;
    COVE_TRY(const auto piece, body_piece(body_->connection, body_->buffer, body_->parser, body_->chunk));
    if (piece.empty()) return std::optional<Event>();
    parser_.feed(piece);
  }
}

Result<EventStream> Client::follow(Request request) {
  request.headers.emplace_back("Accept", "text/event-stream");
  COVE_TRY(auto connection, Connection::open(options_.address, options_.waiting));
  auto body = std::make_unique<EventStream::Body>(std::move(connection));
  COVE_CHECK(body->connection.send_all(request_head(options_, request, nullptr) + request.body));
  prepare(body->parser, request);
  beast::error_code failed;
  http::read_header(body->connection, body->buffer, body->parser, failed);
  if (failed) return broken(failed);
  auto response = head_of(body->parser);
  if (response.status == 200 && response.header("Content-Type").starts_with("text/event-stream")) {
    // The server sends at least a comment every 15 seconds.
    auto waiting = options_.waiting;
    if (waiting.patience.count() == 0) waiting.patience = kSilence;
    body->connection.set_waiting(waiting);
    return EventStream(std::move(body));
  }
  while (true) {
    COVE_TRY(const auto piece, body_piece(body->connection, body->buffer, body->parser, body->chunk));
    if (piece.empty()) break;
    response.body += piece;
    if (response.body.size() > kChunk) break;
  }
  COVE_CHECK(judged(options_, response));
  return fail(Errc::io, "the server did not send an event stream");
}

}  // namespace cove::client
