#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "base/budget.hpp"
#include "base/result.hpp"
#include "http/request.hpp"
#include "http/response.hpp"
#include "http/websocket.hpp"

namespace cove::http {

class Connection;

// One request and its answer. Borrowed by the handler for as long as the handler runs; the handler answers once, by
// send(), by start()…finish(), by accept_websocket() or by abort(). A body the handler did not read is read and thrown
// away behind its back, after the answer.
//
// Every failure with Errc::unavailable means that the client is gone or too slow and that nothing more can be said to
// it: return.
class Exchange {
 public:
  Exchange(Connection& connection, Request request, std::uint64_t body_limit);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  [[nodiscard]] const Request& request() const { return request_; }

  // What the client announced; nothing for a chunked body. 0 when there is no body.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const;
  // The whole (rest of the) body. over_limit when it is more than `limit` or than the route allows; invalid when it is
  // malformed; unavailable also when the tenant, or the server, holds too much in memory: then it has been answered.
  Task<Result<std::string>> read_body(std::size_t limit);
  // What the body holds of the server's memory is held until the exchange is over. Who keeps the body's content longer
  // takes this along; who has no more of it gives it up.
  [[nodiscard]] Budget::Charge take_charge() { return std::move(charge_); }
  // 1..size bytes, or 0 at the end.
  Task<Result<std::size_t>> read_body_some(char* data, std::size_t size);

  // The whole answer.
  Task<Result<>> send(Response response);
  // An answer in parts: chunked (HTTP/1.1), up to the end of the connection (1.0), or with a length known before. The
  // body of `head` is ignored.
  Task<Result<>> start(Response head);
  Task<Result<>> start(Response head, std::uint64_t length);
  // Returns when the kernel has taken all; `bytes` must live until then. With HEAD nothing is sent.
  Task<Result<>> write(std::string_view bytes);
  // Without it the client sees an answer cut short.
  Task<Result<>> finish();
  // Closes with a reset: what was begun cannot be ended well.
  void abort();

  // The other side has closed or reset, or takes nothing any more. Known only once the body has been read. It may still
  // be reading if it only said that it has no more to send; an answer is then sent as usual.
  [[nodiscard]] bool client_gone() const;
  // Notified when client_gone() becomes true.
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // Answers the handshake; on a request that is none, answers 400 or 426 and fails with `invalid`.
  Task<Result<std::unique_ptr<WebSocket>>> accept_websocket();

  // For the access log: the status sent (0: none yet), bytes of bodies.
  [[nodiscard]] unsigned status() const { return status_; }
  [[nodiscard]] std::uint64_t bytes_in() const { return bytes_in_; }
  [[nodiscard]] std::uint64_t bytes_out() const { return bytes_out_; }
  [[nodiscard]] bool answered() const { return status_ != 0; }

 private:
  friend class Connection;
  enum class Framing { none, length, chunked, close };

  // Answers 429 or 503 instead of what was meant, which the memory of the server has no room for.
  Task<> say_full(Error why);
  Task<Result<>> send_head(Response head, Framing framing, std::uint64_t length, std::string_view body);

  Connection& connection_;
  Request request_;
  std::uint64_t body_limit_;
  async::Signal changed_;
  Budget::Charge charge_;
  Framing framing_ = Framing::none;
  std::uint64_t left_ = 0;  // with Framing::length: still to be written
  unsigned status_ = 0;
  std::uint64_t bytes_in_ = 0;
  std::uint64_t bytes_out_ = 0;
  bool finished_ = false;
  bool over_limit_ = false;
  bool malformed_ = false;
};

}  // namespace cove::http
