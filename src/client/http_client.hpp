#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "client/address.hpp"
#include "client/connection.hpp"
#include "client/events.hpp"

namespace cove::client {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method = "GET";
  std::string target;  // path and query, below the address's prefix
  Headers headers{};
  std::string content_type{};
  std::string body{};
};

struct Response {
  unsigned status = 0;
  std::string reason;
  Headers headers;
  std::string body;

  [[nodiscard]] std::string_view header(std::string_view name) const;  // "" when there is none
};

// Fills the span and returns how much; 0 is the end. A failure leaves the request incomplete, which the server notices.
using Source = std::function<Result<std::size_t>(std::span<char>)>;
struct Upload {
  Source source;
  std::optional<std::uint64_t> size;  // none: chunked
};
// Receives the content of a successful answer as it arrives. `length` is its Content-Length.
struct Download {
  std::function<Result<>(std::optional<std::uint64_t> length)> begin;
  std::function<Result<>(std::string_view bytes)> take;
};

struct Options {
  Address address;
  std::string key;  // empty: none
  Waiting waiting{};
};

// The error of an unsuccessful answer to a request with these options, in one sentence that says what to do next;
// nothing for a successful one.
Result<> judged(const Options& options, const Response& response);

// An HTTP/1.1 client for one server: one request at a time, over one persistent connection. Blocking; not thread-safe.
class Client {
 public:
  explicit Client(Options options) : options_(std::move(options)) {}

  // Any answer, whatever its status. Errc::unavailable when there is none.
  Result<Response> send(const Request& request, const Upload* upload = nullptr, const Download* download = nullptr);
  // As send(), with an error for unsuccessful answers.
  Result<Response> ask(const Request& request, const Upload* upload = nullptr, const Download* download = nullptr);
  // A stream of server-sent events, on a connection of its own.
  Result<EventStream> follow(Request request);

  [[nodiscard]] const Options& options() const { return options_; }
  void set_waiting(const Waiting& waiting) { options_.waiting = waiting; }

 private:
  enum class Attempt { first, again };
  Result<Response> attempt(const Request& request, const Upload* upload, const Download* download, bool& unheard);

  Options options_;
  std::optional<Connection> connection_;
  boost::beast::flat_buffer buffer_;
};

// The head of a request as it is sent; the caller sends the body.
std::string request_head(const Options& options, const Request& request, const Upload* upload);

}  // namespace cove::client
