#include "mcp/client/handshake.hpp"

#include <algorithm>

#include "base/sha256.hpp"
#include "json/fields.hpp"
#include "mcp/client/sse.hpp"
#include "mcp/client/stdio.hpp"
#include "mcp/client/streamable.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;
using Way = EraMemory::Way;

constexpr std::chrono::seconds kProbing{
    2};  // until a program that says nothing is taken for one of the older revisions
constexpr std::size_t kMaxInstructions = 64 * 1024;
constexpr std::size_t kMaxWays = 4096;

std::chrono::milliseconds left(Clock::time_point until) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()));
}

AskOptions within(std::chrono::milliseconds time) {
  AskOptions options{.timeout = time, .most = time};
  options.cancellable = false;
  return options;
}

bool lists_modern(const json::value* versions) {
  return versions != nullptr && versions->is_array() &&
         std::ranges::any_of(versions->as_array(), [](const json::value& version) {
           return version.is_string() && std::string_view(version.as_string()) == name_of(kModern);
         });
}

json::object object_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_object() ? value->as_object() : json::object();
}

Greeting greeting_of(const json::object& result, Revision revision) {
  Greeting out{.revision = revision, .server_info = object_of(result, "serverInfo")};
  if (out.server_info.empty())
    out.server_info = object_of(object_of(result, "_meta"), "io.modelcontextprotocol/serverInfo");
  out.capabilities = object_of(result, "capabilities");
  out.instructions = cove::json::text_of(result, "instructions").substr(0, kMaxInstructions);
  return out;
}

// What the first question has shown.
struct Probe {
  enum class Verdict { modern, legacy, failed };
  Verdict verdict = Verdict::failed;
  Greeting greeting{};
  Error why{};
};

Probe probe_failed(Error why) {
  return Probe{.verdict = Probe::Verdict::failed, .greeting = {}, .why = std::move(why)};
}

Error refused_credentials(const Reply& reply) {
  return Error{.code = Errc::denied,
               .message = fmt::format("the server wants other credentials (HTTP {}){}{}", reply.status,
                                      reply.said.empty() ? "" : ": ", reply.said)};
}

Task<Probe> probe(std::shared_ptr<Connection> connection, ServerConfig::Kind kind, Clock::time_point until) {
  connection->speak(kModern);
  const bool stdio = kind == ServerConfig::Kind::stdio;
  for (int attempt = 1;; ++attempt) {
    auto options = within(stdio ? std::min<std::chrono::milliseconds>(kProbing, left(until)) : left(until));
    auto reply = co_await connection->ask("server/discover", json::object(), std::move(options));
    if (!reply) {
      // Silence, or an answer that makes no sense, is how those answer that have never heard of it.
      const bool strange = reply.error().code == Errc::conflict || (stdio && reply.error().sys_errno == ETIMEDOUT);
      if (strange && !connection->over()) co_return Probe{.verdict = Probe::Verdict::legacy};
      co_return probe_failed(reply.error());
    }
    if (reply->unauthorized) co_return probe_failed(refused_credentials(*reply));
    if (reply->fault) {
      const auto code = reply->fault->code;
      const auto* data = reply->fault->data.if_object();
      if (code == Code::unsupported_version) {
        if (data == nullptr || !lists_modern(data->if_contains("supported")))
          co_return Probe{.verdict = Probe::Verdict::legacy};
        if (attempt == 1) continue;
      }
      const bool speaks_modern =
          code == Code::unsupported_version ||
          (!stdio && reply->status == 400 && (code == Code::header_mismatch || code == Code::missing_capability)) ||
          (!stdio && reply->status == 404 && code == Code::method_not_found);
      co_return Probe{.verdict = speaks_modern ? Probe::Verdict::modern : Probe::Verdict::legacy};
    }
    if (reply->status >= 300 || !lists_modern(reply->result.if_contains("supportedVersions")))
      co_return Probe{.verdict = Probe::Verdict::legacy};
    co_return Probe{.verdict = Probe::Verdict::modern, .greeting = greeting_of(reply->result, kModern)};
  }
}

// The handshake of the older revisions. Errc::not_found: this is no endpoint of Streamable HTTP.
Task<Result<Greeting>> initialize(std::shared_ptr<Connection> connection,
                                  std::shared_ptr<const Environment> environment, Clock::time_point until) {
  connection->speak(kNewestLegacy);
  json::object params{{"protocolVersion", name_of(kNewestLegacy)}};
  params["capabilities"] = connection->capabilities();
  params["clientInfo"] = {{"name", environment->name}, {"version", environment->version}};
  auto options = within(left(until));
  const auto reply = co_await connection->ask("initialize", std::move(params), std::move(options));
  if (!reply) co_return tl::unexpected<Error>(reply.error());
  if (reply->unauthorized) co_return tl::unexpected<Error>(refused_credentials(*reply));
  if (reply->status == 400 || reply->status == 404 || reply->status == 405)
    co_return fail(Errc::not_found, fmt::format("the server takes no initialize (HTTP {}): {}", reply->status,
                                                reply->fault ? reply->fault->message : reply->said));
  if (reply->fault)
    co_return fail(Errc::unsupported, fmt::format("the server refuses to begin: {} ({})", shown(reply->fault->message),
                                                  static_cast<int>(reply->fault->code)));
  if (reply->status >= 300)
    co_return fail(Errc::unavailable,
                   fmt::format("the server refuses to begin (HTTP {}): {}", reply->status, reply->said));
  const auto version = cove::json::text_of(reply->result, "protocolVersion");
  const auto revision = version == "2024-10-07" ? std::optional(kOldest) : find_revision(version);
  // Some speak of the newest in the words of the older ones; what they do is as the last of those has it.
  if (!revision)
    co_return fail(
        Errc::unsupported,
        fmt::format("the server speaks revision \"{}\" of the protocol, which is not known here", shown(version, 50)));
  connection->speak(std::min(*revision, kNewestLegacy));
  const auto told = co_await connection->deliver("notifications/initialized", json::object());
  if (!told) co_return tl::unexpected<Error>(told.error());
  co_return greeting_of(reply->result, connection->revision());
}

void settle_on(Connection& connection, EraMemory* eras, const ServerConfig& config, Way way) {
  if (eras != nullptr) eras->learn(config, way);
  connection.settled();
}

struct Opening {
  std::shared_ptr<const Environment> environment;
  std::shared_ptr<const ServerConfig> config;
  std::shared_ptr<Counters> counters;
  Clock::time_point until;

  [[nodiscard]] std::shared_ptr<Connection> connection() const {
    return std::make_shared<Connection>(environment, counters);
  }
  [[nodiscard]] EraMemory* eras() const { return environment->eras.get(); }
};

Task<Result<std::shared_ptr<Connection>>> launch(Opening opening) {
  auto pipes = co_await opening.environment->launch(*opening.config);
  if (!pipes) co_return tl::unexpected<Error>(pipes.error());
  auto connection = opening.connection();
  connection->use(std::make_unique<Stdio>(opening.environment->executor, std::move(*pipes), opening.environment->limits,
                                          *connection));
  co_return connection;
}

Task<Result<Opened>> open_stdio(Opening opening) {
  if (!opening.environment->launch)
    co_return fail(Errc::unsupported, "no program can be started from here; give the server as a url");
  const auto known = opening.eras() != nullptr ? opening.eras()->recall(*opening.config) : Way::unknown;
  auto launched = co_await launch(opening);
  if (!launched) co_return tl::unexpected<Error>(launched.error());
  auto connection = std::move(*launched);
  if (known != Way::legacy) {
    auto found = co_await probe(connection, ServerConfig::Kind::stdio, opening.until);
    if (found.verdict == Probe::Verdict::modern) {
      settle_on(*connection, opening.eras(), *opening.config, Way::modern);
      co_return Opened{.connection = connection, .greeting = std::move(found.greeting)};
    }
    if (found.verdict == Probe::Verdict::failed) {
      if (!connection->over() || connection->over()->code == Errc::over_limit) {
        co_await connection->close();
        co_return tl::unexpected<Error>(found.why);
      }
      // Some of the older ones end at the first word that they do not know.
      co_await connection->close();
      auto again = co_await launch(opening);
      if (!again) co_return tl::unexpected<Error>(again.error());
      connection = std::move(*again);
    }
  }
  auto greeting = co_await initialize(connection, opening.environment, opening.until);
  if (!greeting) {
    co_await connection->close();
    auto why = greeting.error();
    if (why.code == Errc::not_found) why.code = Errc::unsupported;
    co_return tl::unexpected<Error>(why);
  }
  settle_on(*connection, opening.eras(), *opening.config, Way::legacy);
  co_return Opened{.connection = connection, .greeting = std::move(*greeting)};
}

Task<Result<Opened>> open_sse(Opening opening, HttpSide side) {
  auto connection = opening.connection();
  auto transport = std::make_unique<Sse>(std::move(side), *connection);
  auto& sse = *transport;
  connection->use(std::move(transport));
  const auto started = co_await sse.start(opening.until);
  if (!started) {
    co_await connection->close();
    co_return tl::unexpected<Error>(started.error());
  }
  auto greeting = co_await initialize(connection, opening.environment, opening.until);
  if (!greeting) {
    co_await connection->close();
    co_return tl::unexpected<Error>(greeting.error());
  }
  settle_on(*connection, opening.eras(), *opening.config, Way::sse);
  co_return Opened{.connection = connection, .greeting = std::move(*greeting)};
}

Task<Result<Opened>> open_http(Opening opening) {
  auto url = outbound::parse_url(opening.config->url);
  if (!url) co_return tl::unexpected<Error>(url.error());
  const HttpSide side(opening.environment, opening.config, std::move(*url));
  const auto known = opening.eras() != nullptr ? opening.eras()->recall(*opening.config) : Way::unknown;
  const auto kind = opening.config->kind;
  if (kind == ServerConfig::Kind::sse || (kind == ServerConfig::Kind::automatic && known == Way::sse))
    co_return co_await open_sse(opening, side);
  auto connection = opening.connection();
  connection->use(std::make_unique<Streamable>(side, *connection));
  if (known != Way::legacy) {
    auto found = co_await probe(connection, kind, opening.until);
    if (found.verdict == Probe::Verdict::modern) {
      settle_on(*connection, opening.eras(), *opening.config, Way::modern);
      co_return Opened{.connection = connection, .greeting = std::move(found.greeting)};
    }
    if (found.verdict == Probe::Verdict::failed) {
      co_await connection->close();
      co_return tl::unexpected<Error>(found.why);
    }
  }
  auto greeting = co_await initialize(connection, opening.environment, opening.until);
  if (greeting) {
    settle_on(*connection, opening.eras(), *opening.config, Way::legacy);
    co_return Opened{.connection = connection, .greeting = std::move(*greeting)};
  }
  auto why = greeting.error();
  co_await connection->close();
  if (why.code != Errc::not_found) co_return tl::unexpected<Error>(why);
  why.code = Errc::unsupported;
  if (kind != ServerConfig::Kind::automatic) co_return tl::unexpected<Error>(why);
  auto opened = co_await open_sse(opening, side);
  if (opened) co_return opened;
  why.message += fmt::format("; nor is it a server of HTTP+SSE: {}", opened.error().message);
  co_return tl::unexpected<Error>(why);
}

std::string digest_of(const ServerConfig& config) {
  Sha256 digest;
  digest.add(json::serialize(to_json(config)));
  return digest.hex();
}

}  // namespace

std::shared_ptr<EraMemory> make_era_memory() {
  return std::make_shared<EraMemory>();
}

EraMemory::Way EraMemory::recall(const ServerConfig& config) const {
  const auto found = ways_.find(digest_of(config));
  return found == ways_.end() ? Way::unknown : found->second;
}

void EraMemory::learn(const ServerConfig& config, Way way) {
  if (ways_.size() >= kMaxWays) ways_.clear();
  ways_[digest_of(config)] = way;
}

Task<Result<Opened>> open_connection(std::shared_ptr<const Environment> environment,
                                     std::shared_ptr<const ServerConfig> config, std::shared_ptr<Counters> counters) {
  Opening opening{.environment = environment,
                  .config = config,
                  .counters = std::move(counters),
                  .until = Clock::now() + config->connect_timeout};
  const bool stdio = config->kind == ServerConfig::Kind::stdio;
  Result<Opened> opened;
  if (stdio)
    opened = co_await open_stdio(std::move(opening));
  else
    opened = co_await open_http(std::move(opening));
  // What was known of it may be what was wrong.
  if (!opened && environment->eras) environment->eras->learn(*config, Way::unknown);
  co_return opened;
}

}  // namespace cove::mcp::client
