#include "outbound/client.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "async/deadline.hpp"
#include "outbound/connection.hpp"
#include "outbound/tls.hpp"

namespace cove::outbound {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using async::Task;
using Parser = http::response_parser<http::buffer_body>;

constexpr std::chrono::milliseconds kLook{200};  // how often it is seen whether anybody still waits
constexpr std::uint32_t kMaxHead = 64 * 1024;
constexpr std::size_t kPiece = 64 * 1024;
constexpr int kMaxInterim = 8;  // answers such as 103 before the real one

bool token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != kOthers.npos;
  });
}

bool one_line(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

// The request as it is sent.
Result<std::string> message(const Request& request, const Options& options) {
  if (!token(request.method)) return fail(Errc::invalid, "the method is malformed");
  http::fields fields;
  for (const auto& [name, value] : request.headers) {
    if (!token(name) || !one_line(value)) return fail(Errc::invalid, fmt::format("the header '{}' is malformed", name));
    fields.insert(name, value);
  }
  fields.set(http::field::host, request.url.authority());
  fields.set(http::field::connection, "close");
  if (fields.count(http::field::user_agent) == 0) fields.set(http::field::user_agent, options.user_agent);
  if (!request.body.empty() || (request.method != "GET" && request.method != "HEAD" && request.method != "DELETE"))
    fields.set(http::field::content_length, std::to_string(request.body.size()));
  auto text = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.url.target);
  for (const auto& field : fields) {
    const std::string_view name = field.name_string();
    const std::string_view value = field.value();
    text += fmt::format("{}: {}\r\n", name, value);
  }
  return text + "\r\n" + request.body;
}

Head head_of(const Parser& parser, const Url& url) {
  Head head{.status = parser.get().result_int(), .headers = {}, .url = url};
  for (const auto& field : parser.get()) head.headers.emplace_back(field.name_string(), field.value());
  return head;
}

// Where an answer leads on to; no location: it was the last.
struct Hop {
  unsigned status = 0;
  std::string location{};
};

bool redirects(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Gives the parser what has come, or else what comes next, until it has got on.
Task<Result<>> advance(Connection& connection, beast::flat_buffer& buffer, Parser& parser) {
  while (true) {
    if (buffer.size() > 0) {
      beast::error_code failed;
      buffer.consume(parser.put(buffer.data(), failed));
      if (!failed || failed == http::error::need_buffer) co_return Result<>();
      if (failed != http::error::need_more) co_return connection.broken(failed);
    }
    const auto room = buffer.prepare(kPiece);
    const auto size = co_await connection.read_some({static_cast<char*>(room.data()), room.size()});
    if (!size) co_return tl::unexpected<Error>(size.error());
    buffer.commit(*size);
    if (*size > 0) continue;
    beast::error_code failed = http::error::end_of_stream;
    if (parser.got_some()) parser.put_eof(failed);
    if (failed) co_return connection.broken(failed);
    co_return Result<>();
  }
}

// Sends and reads over a connection that stands. An answer that is to be followed is not read further.
Task<Result<Hop>> exchange(Connection& connection, std::string out, const Request& request, Receiver& receiver) {
  if (auto sent = co_await connection.write(std::move(out)); !sent) co_return tl::unexpected<Error>(sent.error());
  beast::flat_buffer buffer;
  std::optional<Parser> parser;
  for (int interim = 0;; ++interim) {
    if (interim > kMaxInterim) co_return fail(Errc::unavailable, "too many interim (1xx) responses");
    parser.emplace();
    parser->header_limit(kMaxHead);
    parser->body_limit(boost::none);
    if (request.method == "HEAD") parser->skip(true);
    while (!parser->is_header_done()) {
      if (auto read = co_await advance(connection, buffer, *parser); !read)
        co_return tl::unexpected<Error>(read.error());
    }
    if (parser->get().result_int() >= 200) break;
  }
  auto head = head_of(*parser, request.url);
  if (request.redirects > 0 && redirects(head.status) && !head.header("Location").empty()) {
    co_return Hop{.status = head.status, .location = std::string(head.header("Location"))};
  }
  const auto length = parser->content_length();
  const auto too_large = fail(Errc::over_limit, fmt::format("{}: the answer is larger than {} bytes",
                                                            request.url.authority(), request.max_body_bytes));
  if (length && *length > request.max_body_bytes && request.method != "HEAD") co_return too_large;
  if (auto begun = co_await receiver.begin(std::move(head)); !begun) co_return tl::unexpected<Error>(begun.error());
  std::uint64_t total = 0;
  std::vector<char> piece(kPiece);
  while (!parser->is_done()) {
    parser->get().body().data = piece.data();
    parser->get().body().size = piece.size();
    if (auto read = co_await advance(connection, buffer, *parser); !read) co_return tl::unexpected<Error>(read.error());
    const auto size = piece.size() - parser->get().body().size;
    if (size == 0) continue;
    total += size;
    if (total > request.max_body_bytes) co_return too_large;
    std::string bytes(piece.data(), size);
    if (auto taken = co_await receiver.take(std::move(bytes)); !taken) co_return tl::unexpected<Error>(taken.error());
  }
  co_return Hop{};
}

// Breaks off a request that nobody waits for any more. Knows the connection only while it is used.
struct Watch {
  Connection* connection = nullptr;
  bool over = false;
};

Task<> watch_over(std::shared_ptr<Watch> watch, std::function<bool()> abandoned) {
  while (!watch->over && !abandoned()) co_await async::sleep_for(kLook);
  if (!watch->over && watch->connection != nullptr) watch->connection->close();
}

class Watched {
 public:
  Watched(std::shared_ptr<Watch> watch, Connection& connection) : watch_(std::move(watch)) {
    watch_->connection = &connection;
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { watch_->connection = nullptr; }

 private:
  std::shared_ptr<Watch> watch_;
};

class Collector : public Receiver {
 public:
  Task<Result<>> begin(Head head) override {
    response.head = std::move(head);
    co_return Result<>();
  }
  Task<Result<>> take(std::string bytes) override {
    response.body += bytes;
    co_return Result<>();
  }
  Response response;
};

// As browsers do: after 303, and after a 301 or 302 to a POST, the next is a GET without a body; headers
// and body meant for one origin are not sent to another.
void follow(Request& request, unsigned status, Url next) {
  const bool as_get = (status == 303 && request.method != "HEAD") || (status < 303 && request.method == "POST");
  if (as_get) {
    request.method = "GET";
    request.body.clear();
  }
  if (!next.same_origin(request.url)) {
    std::erase_if(request.headers, [](const auto& header) {
      return beast::iequals(header.first, "Authorization") || beast::iequals(header.first, "Cookie");
    });
  }
  request.url = std::move(next);
  --request.redirects;
}

}  // namespace

std::string_view Head::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [name](const auto& header) { return beast::iequals(header.first, name); });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Client::Client(asio::any_io_executor executor, Options options)
    : executor_(executor), options_(std::move(options)), resolver_(executor, options_.lookups) {}

Client::~Client() = default;

Result<asio::ssl::context*> Client::tls() {
  if (!tls_) {
    COVE_TRY(tls_, tls_context(options_.ca_file));
  }
  return tls_.get();
}

Task<Result<>> Client::send(Request request, Receiver& receiver) {
  const auto watch = std::make_shared<Watch>();
  struct Over {
    std::shared_ptr<Watch> watch;
    ~Over() { watch->over = true; }
  } const over{watch};
  if (request.abandoned) asio::co_spawn(executor_, watch_over(watch, request.abandoned), asio::detached);
  while (true) {
    if (request.abandoned && request.abandoned())
      co_return fail(Errc::unavailable, "nobody waits for the answer any more");
    const auto found = co_await resolver_.resolve(request.url.host, request.tenant, request.until);
    if (!found) co_return tl::unexpected<Error>(found.error());
    auto addresses = dialable(request.url, request.reach, *found);
    if (addresses.empty())
      co_return fail(Errc::denied,
                     fmt::format("{} has no public address, and is not allowed by name", request.url.authority()));
    auto out = message(request, options_);
    if (!out) co_return tl::unexpected<Error>(out.error());
    Connection connection(executor_, request.url, request.until);
    const Watched watched(watch, connection);
    if (auto connected = co_await connection.connect(std::move(addresses)); !connected) co_return connected;
    if (request.url.tls) {
      const auto context = tls();
      if (!context) co_return tl::unexpected<Error>(context.error());
      if (auto secured = co_await connection.secure(**context); !secured) co_return secured;
    }
    const auto hop = co_await exchange(connection, std::move(*out), request, receiver);
    if (!hop) co_return tl::unexpected<Error>(hop.error());
    if (hop->location.empty()) co_return Result<>();
    auto next = resolve_url(request.url, hop->location);
    if (!next) co_return tl::unexpected<Error>(next.error());
    follow(request, hop->status, std::move(*next));
  }
}

Task<Result<Response>> Client::send(Request request) {
  Collector collector;
  auto sent = co_await send(std::move(request), collector);
  if (!sent) co_return tl::unexpected<Error>(sent.error());
  co_return std::move(collector.response);
}

}  // namespace cove::outbound
