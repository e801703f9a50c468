#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/client/pipes.hpp"
#include "mcp/client/server_config.hpp"
#include "mcp/message.hpp"
#include "mcp/revision.hpp"
#include "outbound/addresses.hpp"
#include "outbound/client.hpp"

namespace cove::mcp::client {

struct Tool {
  std::string name;  // as the server spells it, of any characters
  std::string title{};
  std::string description{};
  boost::json::object input_schema{};
  std::optional<boost::json::object> output_schema{};
  boost::json::object annotations{};
};

// What came of a call that the server answered.
struct CallResult {
  boost::json::array content{};                    // blocks, each an object with a type
  std::optional<boost::json::value> structured{};  // structuredContent
  bool is_error = false;                           // isError: the tool says that it failed, in its content
  std::optional<Fault> fault{};                    // the answer was a JSON-RPC error; the rest is empty then
};

struct Progress {
  double progress = 0;
  std::optional<double> total{};
  std::string message{};
};

struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout{};  // since the last progress; none: the configuration's
  std::optional<std::chrono::milliseconds> most{};     // in all; none: ten times the timeout
  std::function<void(const Progress&)> on_progress{};  // the server is asked for progress when there is one
  std::function<bool()>
      abandoned{};             // polled: true once nobody waits for the answer. Cancelling the task does the same.
  boost::json::object meta{};  // further members of _meta, "traceparent" for one
};

// What the client does for the server. Nothing is offered without a handler; a request for it is refused.
struct Handlers {
  std::vector<boost::json::object> roots{};  // {"uri", "name"?}; none: no roots are offered
  using Ask = std::function<async::Task<Or<>>(boost::json::object params)>;
  Ask sampling{};
  Ask elicitation{};
};

struct Limits {
  std::size_t outstanding_calls = 256;
  std::uint64_t message_bytes = std::uint64_t{64} << 20;  // one line, event or answer, as text
  std::uint64_t result_bytes = std::uint64_t{8} << 20;    // of one call's result, as text
  std::uint64_t list_bytes = std::uint64_t{16} << 20;     // of a whole list of tools, as text
  std::size_t list_pages = 1000;
  std::size_t tools = 10'000;
  std::size_t json_depth = 64;
  std::size_t rounds = 10;                      // of questions within one call
  std::size_t notifications_per_second = 1000;  // more are dropped
};

// What was dropped or had to be done again, since the beginning.
struct Counters {
  std::uint64_t calls = 0;
  std::uint64_t late_answers = 0;       // with an id that nothing waits for: foreign, used twice, or given up
  std::uint64_t unusable_messages = 0;  // lines that are no JSON, JSON that is no message
  std::uint64_t dropped_notifications = 0;
  std::uint64_t refused_requests = 0;  // the server's
  std::uint64_t restarts = 0;          // of a stdio server that died, of an HTTP session that was forgotten
  std::uint64_t resumed_streams = 0;
};

// Which era a server belongs to, by configuration, so that the next connection need not ask.
class EraMemory;
std::shared_ptr<EraMemory> make_era_memory();

// What a client needs of the place where it runs.
struct Environment {
  boost::asio::any_io_executor executor;
  outbound::Client* http = nullptr;  // outlives the client and its close(); null: no HTTP server can be reached
  outbound::Reach reach{};           // private and loopback addresses that it may dial
  std::string tenant{};              // whose share of the lookups it uses
  Launch launch{};                   // none: no stdio server can be started
  Handlers handlers{};
  Limits limits{};
  std::shared_ptr<EraMemory> eras{};
  // Called with a sentence about what the server did wrong, at most a few times a second. Its text is escaped.
  std::function<void(std::string_view sentence)> log{};
  // The server says that its tools have changed; tools() will ask again.
  std::function<void()> on_tools_changed{};
  std::string name = "cove";
  std::string version{};

  // For servers that want a person's consent: takes the address of the consent page and gives the address to which the
  // authorization server sent the browser back. None: such servers are refused.
  std::function<async::Task<Result<std::string>>(std::string address)> authorize{};
  std::string redirect_uri{};         // where it sends the browser
  std::string client_metadata_url{};  // what is published about this client, for servers that read it
};

// A connection to one MCP server, of whatever transport and era, kept alive: a stdio server that died and an HTTP
// session that was forgotten are begun anew by the next call. Calls may overlap. For one loop. A call whose client is
// destroyed ends with Errc::unavailable.
class Client {
 public:
  struct State;  // of this room alone

  // Starts the server or reaches it, and agrees on a revision, within config.connect_timeout. `config` is substituted.
  //   Errc::invalid      a URL or header that cannot be used
  //   Errc::denied       the address may not be dialled, or the server wants credentials; the sentence says which
  //   Errc::unsupported  it speaks no revision that we know, or there is no way to start a program here
  //   Errc::unavailable  everything else; with the last words of its standard error
  static async::Task<Result<std::unique_ptr<Client>>> connect(Environment environment, ServerConfig config);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Those that the configuration admits, in the server's order; asked for once, and again when they have changed or
  // what the server said has expired. Errc::over_limit: too many tools, pages or bytes.
  async::Task<Result<std::vector<Tool>>> tools();

  // Errors:
  //   Errc::not_found    the server has no such tool, or the configuration does not admit it
  //   Errc::invalid      the arguments do not fit the tool's schema; the sentence names the place. Nothing was sent.
  //   Errc::over_limit   too many calls at once; nothing was sent. Or the answer is too large.
  //   Errc::conflict     the server broke the protocol, or its answer does not fit the tool's output schema
  //   Errc::unavailable  the connection broke, and trying again may help; sys_errno is ETIMEDOUT after a time limit and
  //                      ECANCELED when the call was abandoned. The server was told that nobody waits.
  async::Task<Result<CallResult>> call(std::string tool, boost::json::object arguments, CallOptions options);

  // Any other request, "resources/read" for one. The answer is the result, or the error that the server gave.
  async::Task<Result<Or<>>> request(std::string method, boost::json::object params, CallOptions options);

  // The end of the session and of its server. Calls under way end with Errc::unavailable; later ones too.
  async::Task<> close();

  [[nodiscard]] Revision revision() const;
  [[nodiscard]] const boost::json::object& server_info() const;  // {"name", "version"}, as the server says
  [[nodiscard]] const std::string& instructions() const;
  [[nodiscard]] const boost::json::object& capabilities() const;
  [[nodiscard]] const ServerConfig& config() const;
  [[nodiscard]] const Counters& counters() const;
  [[nodiscard]] std::size_t outstanding() const;

 private:
  explicit Client(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace cove::mcp::client
