#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "outbound/addresses.hpp"
#include "outbound/resolver.hpp"
#include "outbound/url.hpp"

namespace boost::asio::ssl {
class context;
}

namespace cove::outbound {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method = "GET";
  Url url;
  Headers headers{};  // besides Host, Content-Length, Connection and User-Agent
  std::string body{};
  Reach reach{};
  std::string tenant{};                         // whose share of the lookups this uses
  std::chrono::steady_clock::time_point until;  // deadline for everything: lookup, connection, redirects, the last byte
  std::uint64_t max_body_bytes = 1 << 20;       // of the answer
  unsigned redirects = 0;             // how many to follow, each checked like a new address; 0: a 302 is the answer
  std::function<bool()> abandoned{};  // polled: true once nobody waits for the answer
};

struct Head {
  unsigned status = 0;
  Headers headers;
  Url url;  // the one that answered, after redirects

  [[nodiscard]] std::string_view header(std::string_view name) const;  // "" when there is none
};

struct Response {
  Head head;
  std::string body;
};

// Receives an answer piece by piece. Its error ends the request. The next piece is read when `take` has returned.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual async::Task<Result<>> begin(Head head) = 0;
  virtual async::Task<Result<>> take(std::string bytes) = 0;
};

struct Options {
  std::string ca_file;  // empty: the system's store
  std::string user_agent = "cove";
  Resolver::Options lookups = {};
};

// One request for each call, on a connection of its own. For one loop; calls may overlap.
//   Errc::invalid      the request cannot be written: a header with a line break, a redirect to no address
//   Errc::denied       no address of the host may be dialled
//   Errc::over_limit   the answer is larger than allowed
//   Errc::unavailable  abandoned; the lookup, the connection or certificate verification failed; the answer is
//                      malformed or cut off; sys_errno is ETIMEDOUT after the deadline
class Client {
 public:
  Client(boost::asio::any_io_executor executor, Options options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  async::Task<Result<Response>> send(Request request);
  // The same with the body given to `receiver`, which must outlive the call.
  async::Task<Result<>> send(Request request, Receiver& receiver);

  [[nodiscard]] const Resolver& resolver() const { return resolver_; }

 private:
  Result<boost::asio::ssl::context*> tls();

  boost::asio::any_io_executor executor_;
  Options options_;
  Resolver resolver_;
  std::unique_ptr<boost::asio::ssl::context> tls_;
};

}  // namespace cove::outbound
