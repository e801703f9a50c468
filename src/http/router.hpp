#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "async/task.hpp"
#include "http/request.hpp"
#include "http/response.hpp"

namespace cove::http {

class Exchange;
using Handler = std::function<async::Task<>(Exchange&)>;

// Who may use a route: anybody (open); holders of a key; or holders of a key and, without one, programs on this machine
// that do not come through a proxy.
enum class Access { open, key, key_or_loopback };

struct RouteOptions {
  http::Access access = http::Access::key;
  std::uint64_t body_limit = std::uint64_t{16} << 20;
  bool navigable = false;    // a page that links on other sites may lead to
  bool head = true;          // of GET: also serves HEAD
  bool strict = false;       // parameters must not be empty; the path with a trailing slash is redirected here with 307
  bool rest = false;         // the last parameter takes the rest of the path, including slashes; it may be empty
  bool scoped = false;       // heeds the scope that a request names, and is served by listeners that are bound to one
  bool query_token = false;  // the key may be `token` in the query
  std::string_view door = {};  // Principal::door; lives as long as the program
};

// Which routes a listener serves.
enum class Reach { all, scoped };

// Routes are added before the server starts. A pattern is a path whose segments are text or "{name}"; a parameter is
// exactly one raw segment, decoded after the split, and may be empty. Text wins over a parameter.
class Router {
 public:
  using Access = http::Access;
  using RouteOptions = http::RouteOptions;
  struct Route {
    verb method = verb::unknown;
    std::string pattern;
    std::vector<std::string> segments;
    Handler handler;
    RouteOptions options;
  };
  struct Found {
    const Route* route = nullptr;
    NameValues params;
  };
  struct NotFound {};
  struct NotAllowed {
    std::string allow;  // "GET, HEAD, PUT"
  };
  struct Malformed {
    std::string sentence;
  };
  struct Moved {
    std::string path;  // percent-encoded
  };
  // Rewrites an error_response() into the error format of another API.
  using Dialect = std::function<Response(Response)>;

  void add(verb method, std::string pattern, Handler handler, RouteOptions options = {});
  // Applies to every error at this path or below it; the first that was set counts. A segment "{}" is any segment;
  // null: the server's own format.
  void set_dialect(std::string path, Dialect dialect);
  // Null: the server's own format.
  [[nodiscard]] const Dialect* dialect_of(std::string_view path) const;
  // `path` is percent-encoded.
  [[nodiscard]] std::variant<Found, NotFound, NotAllowed, Malformed, Moved> find(verb method, std::string_view path,
                                                                                 Reach reach = Reach::all) const;

 private:
  [[nodiscard]] bool known(const std::vector<std::string>& segments, Reach reach) const;
  std::vector<Route> routes_;
  std::vector<std::pair<std::vector<std::string>, Dialect>> dialects_;
};

}  // namespace cove::http
