#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
// send(), by start()…finish(), by accept_websocket() or by abort(). What the handler did not
// read of the body is read and discarded after the answer.
//
// Every failure with Errc::unavailable means that the client is gone or too slow and that nothing more can be sent:
// return.
class Exchange {
 public:
  Exchange(Connection& connection, Request request, std::uint64_t body_limit);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  [[nodiscard]] const Request& request() const { return request_; }

  // Content-Length; nothing for a chunked body, 0 without a body.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const;
  // The whole (rest of the) body. over_limit when it is more than `limit` or than the route allows; invalid when it is
  // malformed; unavailable also when the tenant, or the server, holds too much in memory: then it has been answered.
  Task<Result<std::string>> read_body(std::size_t limit);
  // The body's share of the server's memory budget, held until the exchange is over. A handler that keeps the body
  // longer moves this along with it; one that is done with the body may release it early.
  [[nodiscard]] Budget::Charge take_charge() { return std::move(charge_); }
  // 1..size bytes, or 0 at the end.
  Task<Result<std::size_t>> read_body_some(char* data, std::size_t size);

  // Goes out with the head of the answer, whatever that will be.
  void attach_header(std::string name, std::string value) { added_.emplace_back(std::move(name), std::move(value)); }
  // The whole answer.
  Task<Result<>> send(Response response);
  // An answer in parts: chunked (HTTP/1.1), up to the end of the connection (1.0), or with a length known before. The
  // body of `head` is ignored.
  Task<Result<>> start(Response head);
  Task<Result<>> start(Response head, std::uint64_t length);
  // Returns when the kernel has accepted all; `bytes` must live until then. For HEAD nothing is sent.
  Task<Result<>> write(std::string_view bytes);
  // Without this call the client sees a truncated answer.
  Task<Result<>> finish();
  // Resets the connection, for an answer that cannot be completed.
  void abort();

  // The other side has closed or reset, or takes nothing any more. Known only once the body has been read. It may still
  // be reading if it only said that it has no more to send; an answer is then sent as usual.
  [[nodiscard]] bool client_gone() const;
  // Notified when client_gone() becomes true.
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // Answers the handshake; on a request that is none, answers 400 or 426 and fails with `invalid`.
  Task<Result<std::unique_ptr<WebSocket>>> accept_websocket(WebSocketWish wish = {});

  // For the access log: the status sent (0: none yet), bytes of bodies.
  [[nodiscard]] unsigned status() const { return status_; }
  [[nodiscard]] std::uint64_t bytes_in() const { return bytes_in_; }
  [[nodiscard]] std::uint64_t bytes_out() const { return bytes_out_; }
  [[nodiscard]] bool answered() const { return status_ != 0; }

 private:
  friend class Connection;
  enum class Framing { none, length, chunked, close };

  // Answers 429 or 503 because the memory budget is exhausted.
  Task<> say_full(Error why);
  Task<Result<>> send_head(Response head, Framing framing, std::uint64_t length, std::string_view body);

  Connection& connection_;
  Request request_;
  std::uint64_t body_limit_;
  async::Signal changed_;
  Budget::Charge charge_;
  std::vector<std::pair<std::string, std::string>> added_;
  std::string page_;  // the origin of another site's page that may read the answer; "": none
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
