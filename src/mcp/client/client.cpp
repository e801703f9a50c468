#include "mcp/client/client.hpp"

#include <algorithm>

#include "async/deadline.hpp"
#include "mcp/client/client_state.hpp"
#include "schema/schema.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSettledAfter{10};  // a connection that lasted this long was no failure
constexpr std::chrono::milliseconds kFirstPause{1000};
constexpr std::chrono::milliseconds kLongestPause{30'000};
constexpr std::chrono::seconds kRetirement{30};
constexpr std::chrono::milliseconds kLookAgain{20};

std::chrono::milliseconds pause_after(int failures) {
  return std::min(kLongestPause, kFirstPause * (1 << std::min(failures - 1, 5)));
}

// Ends a connection that is no longer used, once what is under way on it has come to its end.
Task<> retire(std::shared_ptr<Client::State> state, std::shared_ptr<Connection> connection) {
  const auto until = Clock::now() + kRetirement;
  while (!state->closed && !connection->over() && connection->outstanding() > 0 && Clock::now() < until)
    co_await async::sleep_for(kLookAgain);
  co_await connection->close();
}

// A null where nothing need be is how many say that nothing is there; what it means is for the server to say.
json::object without_optional_nulls(const json::object& schema, json::object arguments) {
  const auto* required = schema.if_contains("required");
  const auto is_required = [required](std::string_view name) {
    return required != nullptr && required->is_array() &&
           std::ranges::any_of(required->as_array(), [name](const json::value& one) {
             return one.is_string() && std::string_view(one.as_string()) == name;
           });
  };
  std::vector<std::string> nulls;
  for (const auto& [name, value] : arguments) {
    if (value.is_null() && !is_required(name)) nulls.emplace_back(name);
  }
  for (const auto& name : nulls) arguments.erase(name);
  return arguments;
}

}  // namespace

Client::State::State(std::shared_ptr<const Environment> env, std::shared_ptr<const ServerConfig> conf)
    : environment(std::move(env)),
      config(std::move(conf)),
      changed(environment->executor),
      group(environment->executor, [](std::string_view, const std::exception_ptr&) {}) {}

void Client::State::complain(std::string_view what) const {
  if (environment->log) environment->log(shown(what, 500));
}

AskOptions Client::State::options_of(CallOptions options) const {
  AskOptions out;
  out.timeout = options.timeout.value_or(config->timeout);
  out.most = options.most.value_or(out.timeout * 10);
  out.on_progress = std::move(options.on_progress);
  out.abandoned = std::move(options.abandoned);
  out.meta = std::move(options.meta);
  return out;
}

Task<Result<std::shared_ptr<Connection>>> Client::State::ready(std::shared_ptr<State> self) {
  while (self->connecting) co_await self->changed.wait();
  if (self->closed) co_return fail(Errc::unavailable, "the connection to the server was closed");
  auto& connection = self->connection;
  if (connection && !connection->over() && connection != self->forgotten) co_return connection;
  const auto now = Clock::now();
  if (connection) {
    const bool short_lived = connection != self->forgotten && !self->useful && now - self->opened_at < kSettledAfter;
    self->failures = short_lived ? self->failures + 1 : 0;
    // The first time it is begun again at once.
    if (self->failures > 1) self->not_before = now + pause_after(self->failures - 1);
    ++self->counters->restarts;
    self->group.spawn("retire", retire(self, connection));
    connection.reset();
    self->forgotten.reset();
  }
  if (now < self->not_before) {
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(self->not_before - now);
    co_return fail_until(
        wait, Errc::unavailable,
        fmt::format("the server has ended {} times in a row; it is begun again in {} ms at the earliest",
                    self->failures, wait.count()));
  }
  struct Connecting {
    State& state;
    ~Connecting() {
      state.connecting = false;
      state.changed.notify_all();
    }
  };
  self->connecting = true;
  const Connecting connecting{*self};
  auto opened = co_await open_connection(self->environment, self->config, self->counters);
  if (!opened) {
    ++self->failures;
    if (self->failures > 1) self->not_before = Clock::now() + pause_after(self->failures - 1);
    co_return tl::unexpected<Error>(opened.error());
  }
  if (self->closed) {
    co_await opened->connection->close();
    co_return fail(Errc::unavailable, "the connection to the server was closed");
  }
  self->opened_at = Clock::now();
  self->useful = false;
  self->connection = opened->connection;
  self->greeting = std::move(opened->greeting);
  self->tools_changed = true;  // another process may have others
  self->connection->on_tools_changed = [weak = self->weak_from_this()] {
    const auto state = weak.lock();
    if (!state) return;
    state->tools_changed = true;
    if (state->environment->on_tools_changed) state->environment->on_tools_changed();
  };
  co_return self->connection;
}

Task<Result<Reply>> Client::State::ask(std::shared_ptr<State> self, std::string method, json::object params,
                                       AskOptions options, Again again) {
  for (int attempt = 1;; ++attempt) {
    const auto connection = co_await ready(self);
    if (!connection) co_return tl::unexpected<Error>(connection.error());
    auto sent = params;
    auto sent_options = options;
    auto reply = co_await (*connection)->ask(method, std::move(sent), std::move(sent_options));
    if (reply && method == "tools/call") self->useful = true;
    if (attempt > 1) co_return reply;
    if (reply && reply->session_lost) {
      self->forgotten = *connection;  // it was refused, so nothing was done
      continue;
    }
    const bool broken = !reply && reply.error().code == Errc::unavailable && reply.error().sys_errno == 0;
    if (!broken || again == Again::never || self->closed) co_return reply;
  }
}

Task<Result<std::shared_ptr<const ToolList>>> Client::State::list(std::shared_ptr<State> self) {
  while (self->listing) co_await self->changed.wait();
  const auto current = [&self] { return self->tools && !self->tools_changed && Clock::now() < self->tools->expires; };
  if (current()) co_return self->tools;
  struct Listing {
    State& state;
    ~Listing() {
      state.listing = false;
      state.changed.notify_all();
    }
  };
  self->listing = true;
  const Listing listing{*self};
  const auto connection = co_await ready(self);
  if (!connection) co_return tl::unexpected<Error>(connection.error());
  self->tools_changed = false;
  const AskPage ask_page = [self](json::object params) {
    return ask(self, "tools/list", std::move(params), self->options_of({}), Again::if_lost);
  };
  const auto over = self->config->kind == ServerConfig::Kind::stdio ? Over::stdio : Over::http;
  auto read = co_await read_tools(ask_page, self->environment->limits, over,
                                  [self](std::string_view what) { self->complain(what); });
  if (!read) {
    self->tools_changed = true;
    co_return tl::unexpected<Error>(read.error());
  }
  std::erase_if(read->tools, [&self](const ListedTool& one) { return !self->config->admits(one.tool.name); });
  self->tools = std::make_shared<const ToolList>(std::move(*read));
  co_return self->tools;
}

Client::Client(std::shared_ptr<State> state) : state_(std::move(state)) {}

Client::~Client() {
  if (!state_) return;
  state_->closed = true;
  if (state_->connection)
    state_->connection->lost(Error{.code = Errc::unavailable, .message = "the connection to the server was closed"});
  state_->connection.reset();
  state_->group.cancel();
}

Task<Result<std::unique_ptr<Client>>> Client::connect(Environment environment, ServerConfig config) {
  const auto state = std::make_shared<State>(std::make_shared<const Environment>(std::move(environment)),
                                             std::make_shared<const ServerConfig>(std::move(config)));
  const auto connection = co_await State::ready(state);
  if (!connection) {
    co_await state->group.join();
    co_return tl::unexpected<Error>(connection.error());
  }
  co_return std::unique_ptr<Client>(new Client(state));
}

Task<Result<std::vector<Tool>>> Client::tools() {
  const auto state = state_;
  const auto list = co_await State::list(state);
  if (!list) co_return tl::unexpected<Error>(list.error());
  std::vector<Tool> out;
  out.reserve((*list)->tools.size());
  for (const auto& one : (*list)->tools) out.push_back(one.tool);
  co_return out;
}

Task<Result<CallResult>> Client::call(std::string tool, json::object arguments, CallOptions options) {
  const auto state = state_;
  ++state->counters->calls;
  if (!state->config->admits(tool))
    co_return fail(Errc::not_found, fmt::format("the configuration does not admit the tool {}", shown(tool, 100)));
  const auto list = co_await State::list(state);
  if (!list) co_return tl::unexpected<Error>(list.error());
  const auto* listed = (*list)->find(tool);
  if (listed == nullptr) co_return fail(Errc::not_found, fmt::format("the server has no tool {}", shown(tool, 100)));
  const auto wrong =
      schema::find_fault(listed->tool.input_schema, without_optional_nulls(listed->tool.input_schema, arguments));
  if (wrong) co_return fail(Errc::invalid, fmt::format("arguments{}", *wrong));
  auto own = *listed;
  co_return co_await State::perform(state, std::move(own), std::move(arguments), std::move(options));
}

Task<Result<Or<>>> Client::request(std::string method, json::object params, CallOptions options) {
  const auto state = state_;
  auto asked = state->options_of(std::move(options));
  auto reply = co_await State::ask(state, method, std::move(params), std::move(asked), Again::never);
  if (!reply) co_return tl::unexpected<Error>(reply.error());
  if (reply->fault) co_return Or<>(tl::unexpected<Fault>(std::move(*reply->fault)));
  if (reply->unauthorized)
    co_return fail(Errc::denied, fmt::format("the server wants other credentials (HTTP {})", reply->status));
  if (reply->status >= 300)
    co_return fail(Errc::unavailable,
                   fmt::format("the server refuses {} (HTTP {}): {}", shown(method, 100), reply->status, reply->said));
  co_return Or<>(std::move(reply->result));
}

Task<> Client::close() {
  const auto state = state_;
  state->closed = true;
  while (state->connecting) co_await state->changed.wait();
  const auto connection = std::exchange(state->connection, nullptr);
  if (connection) co_await connection->close();
  co_await state->group.join();
}

Revision Client::revision() const {
  return state_->greeting.revision;
}
const json::object& Client::server_info() const {
  return state_->greeting.server_info;
}
const std::string& Client::instructions() const {
  return state_->greeting.instructions;
}
const json::object& Client::capabilities() const {
  return state_->greeting.capabilities;
}
const ServerConfig& Client::config() const {
  return *state_->config;
}
const Counters& Client::counters() const {
  return *state_->counters;
}
std::size_t Client::outstanding() const {
  return state_->connection ? state_->connection->outstanding() : 0;
}

}  // namespace cove::mcp::client
