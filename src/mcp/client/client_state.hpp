#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "base/result.hpp"
#include "mcp/client/client.hpp"
#include "mcp/client/connection.hpp"
#include "mcp/client/handshake.hpp"
#include "mcp/client/tool_list.hpp"

namespace cove::mcp::client {

// Whether a request that may have arrived may be sent once more.
enum class Again { never, if_lost };

// A client's connection and what is known of its server, shared by its calls.
struct Client::State : std::enable_shared_from_this<Client::State> {
  State(std::shared_ptr<const Environment> env, std::shared_ptr<const ServerConfig> conf);

  // The connection, begun anew if the one before is over or forgotten by the server. Errc::unavailable with the time
  // after which to try again: it broke too often.
  static async::Task<Result<std::shared_ptr<Connection>>> ready(std::shared_ptr<State> self);
  // A request over the connection there is, repeated over a new one where that does no harm.
  static async::Task<Result<Reply>> ask(std::shared_ptr<State> self, std::string method, boost::json::object params,
                                        AskOptions options, Again again);
  // The list, asked for if it is not there, has changed or is too old.
  static async::Task<Result<std::shared_ptr<const ToolList>>> list(std::shared_ptr<State> self);
  // A call of a tool that is listed: its questions answered, its task waited for.
  static async::Task<Result<CallResult>> perform(std::shared_ptr<State> self, ListedTool tool,
                                                 boost::json::object arguments, CallOptions options);
  [[nodiscard]] AskOptions options_of(CallOptions options) const;
  void complain(std::string_view what) const;

  std::shared_ptr<const Environment> environment;
  std::shared_ptr<const ServerConfig> config;
  std::shared_ptr<Counters> counters = std::make_shared<Counters>();
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Connection> forgotten;  // by the server
  Greeting greeting;
  bool closed = false;
  bool connecting = false;
  async::Signal changed;
  async::TaskGroup group;  // ends connections that are over

  int failures = 0;     // connections in a row that were over at once
  bool useful = false;  // the one there is has answered a call
  std::chrono::steady_clock::time_point opened_at;
  std::chrono::steady_clock::time_point not_before;

  std::shared_ptr<const ToolList> tools;
  bool tools_changed = false;
  bool listing = false;
};

}  // namespace cove::mcp::client
