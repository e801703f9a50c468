#include "doors/sandboxes/answers.hpp"

#include <charconv>
#include <cmath>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "json/shape.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using cove::json::wrong_field;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKeepAlive{15};
constexpr std::chrono::seconds kPlainAnswer{1};  // after this long the answer begins, and whitespace keeps it alive
constexpr milliseconds kPollInterval{200};       // how often it is seen whether the client is still there
constexpr std::size_t kBatch = 256U << 10;
constexpr std::size_t kMaxElements = 50'000;

json::value parsed(const std::string& text) {
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  return failed ? json::value() : value;
}

std::size_t members_of(const json::value& value) {
  std::size_t count = 0;
  if (const auto* object = value.if_object()) {
    count += object->size();
    for (const auto& [key, inner] : *object) count += members_of(inner);
  }
  if (const auto* array = value.if_array()) {
    for (const auto& inner : *array) count += members_of(inner);
  }
  return count;
}

std::string shown(std::string_view bytes) {
  return replace_invalid_utf8(bytes);
}

}  // namespace

http::Response answer_to(const Error& error) {
  const auto later = [&](http::Response response, int usual_seconds) {
    const auto known = std::chrono::ceil<std::chrono::seconds>(error.retry_after).count();
    response.headers.emplace_back("Retry-After", std::to_string(known > 0 ? known : usual_seconds));
    return response;
  };
  switch (error.code) {
    case Errc::invalid:
      return http::error_response(400, "invalid", error.message);
    case Errc::not_found:
      return http::error_response(404, "not_found", error.message);
    case Errc::denied:
      return http::error_response(403, "denied", error.message);
    case Errc::exists:
      return http::error_response(409, "exists", error.message);
    case Errc::conflict:
      return http::error_response(409, "conflict", error.message);
    case Errc::quota:
      return later(http::error_response(429, "quota", error.message), 1);
    case Errc::over_limit:
      // With an errno the host is out of a resource; without one the request is too large.
      if (error.sys_errno != 0) return later(http::error_response(503, "unavailable", error.message), 2);
      return http::error_response(413, "too_large", error.message);
    case Errc::unavailable:
      return later(http::error_response(503, "unavailable", error.message), 1);
    case Errc::unsupported:
      return http::error_response(501, "unsupported", error.message);
    case Errc::io:
      break;
  }
  return http::error_response(500, "internal", error.message);
}

Task<> send_answer(Services& services, http::Exchange& exchange, Answer answer) {
  if (answer && !*answer) co_return;
  const auto pass = services.gate.enter();
  auto response = answer ? std::move(**answer) : answer_to(answer.error());
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

run::Caller caller_of(const http::Exchange& exchange) {
  return {.principal = exchange.request().principal, .gone = [&exchange] { return exchange.client_gone(); }};
}

Result<std::string> sandbox_name(const http::Request& request) {
  return sandbox::checked_name(request.param("id"));
}

Result<> check_serving(const Services& services) {
  if (services.draining()) return fail(Errc::unavailable, "the server is shutting down");
  return {};
}

Task<Result<std::shared_ptr<sandbox::Sandbox>>> find_sandbox(Services& services, const http::Request& request) {
  COVE_CO_CHECK(check_serving(services));
  COVE_CO_TRY(auto name, sandbox_name(request));
  co_return co_await services.registry.find(request.principal.tenant, name);
}

Result<json::object> parse_object(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object();
  const auto shape = cove::json::shape_of(body);
  if (shape.elements > kMaxElements)
    return fail(Errc::invalid, fmt::format("the body has more than {} elements", kMaxElements));
  boost::system::error_code failed;
  auto value = json::parse(body, failed);
  if (failed) return fail(Errc::invalid, fmt::format("the body is not JSON: {}", failed.message()));
  if (members_of(value) != shape.members) return fail(Errc::invalid, "the body has an object with a duplicate key");
  if (!value.is_object()) return fail(Errc::invalid, "the body must be a JSON object");
  return std::move(value.as_object());
}

Task<Result<json::object>> read_object(const Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(auto body, co_await exchange.read_body(services.config()->http.max_body_bytes));
  co_return parse_object(body);
}

Result<std::optional<std::string>> text_field(const json::object& object, std::string_view name) {
  COVE_TRY(auto text, cove::json::text_field(object, name));
  if (text && text->find('\0') != std::string::npos) return wrong_field(name, "may not contain NUL");
  return text;
}

Result<std::optional<double>> number_field(const json::object& object, std::string_view name) {
  COVE_TRY(const auto number, cove::json::number_field(object, name));
  if (number && !std::isfinite(*number)) return wrong_field(name, "must be a number");
  return number;
}

Result<std::vector<std::string>> command_field(const json::object& object) {
  constexpr std::string_view kWrong = "must be a non-empty array of strings";
  const auto* value = object.if_contains("cmd");
  if (value == nullptr || !value->is_array() || value->as_array().empty()) return wrong_field("cmd", kWrong);
  std::vector<std::string> command;
  for (const auto& word : value->as_array()) {
    if (!word.is_string()) return wrong_field("cmd", kWrong);
    if (word.as_string().find('\0') != json::string::npos) return wrong_field("cmd", "may not contain NUL");
    command.emplace_back(word.as_string());
  }
  if (command.front().empty()) return wrong_field("cmd", "must name a program");
  return command;
}

Result<std::vector<std::string>> environment_field(const json::object& object, std::string_view name) {
  std::vector<std::string> variables;
  const auto* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return variables;
  if (!value->is_object()) return wrong_field(name, "must be an object of strings");
  for (const auto& [key, content] : value->as_object()) {
    const std::string_view variable(key);
    if (variable.empty() || variable.find_first_of(std::string_view("=\0", 2)) != std::string_view::npos)
      return wrong_field(name, "has a name that is empty or contains '=' or NUL");
    std::string text;
    if (content.is_string()) {
      text = content.as_string();
    } else if (content.is_number() || content.is_bool()) {
      text = json::serialize(content);
    } else {
      return wrong_field(fmt::format("{}.{}", name, variable), "must be a string");
    }
    if (text.find('\0') != std::string::npos)
      return wrong_field(fmt::format("{}.{}", name, variable), "may not contain NUL");
    variables.push_back(fmt::format("{}={}", variable, text));
  }
  return variables;
}

Result<milliseconds> timeout_field(const json::object& object, const config::ExecLimits& limits) {
  COVE_TRY(const auto seconds, number_field(object, "timeoutSeconds"));
  if (!seconds) return limits.timeout;
  if (!(*seconds > 0)) return wrong_field("timeoutSeconds", "must be greater than 0");
  if (*seconds * 1000 > static_cast<double>(limits.max_timeout.count())) return limits.max_timeout;
  return milliseconds(std::max<std::int64_t>(1, std::llround(*seconds * 1000)));
}

Result<bool> flag_query(const http::Request& request, std::string_view name) {
  const auto value = request.query(name);
  if (!value || *value == "false" || *value == "0") return false;
  if (value->empty() || *value == "true" || *value == "1") return true;
  return wrong_field(name, "must be true or false");
}

Result<std::optional<std::uint64_t>> number_query(const http::Request& request, std::string_view name) {
  const auto value = request.query(name);
  if (!value) return std::optional<std::uint64_t>();
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (failed != std::errc() || end != value->data() + value->size()) return wrong_field(name, "must be a whole number");
  return std::optional(number);
}

Result<std::uint16_t> port_param(const http::Request& request) {
  const auto& text = request.param("port");
  std::uint16_t port = 0;
  const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (wrong != std::errc() || rest != text.data() + text.size() || port == 0)
    return fail(Errc::invalid, "port must be a number between 1 and 65535");
  return port;
}

std::uint64_t first_event(const http::Request& request, std::uint64_t asked) {
  std::uint64_t last = 0;
  const auto header = request.header("Last-Event-ID");
  const auto [end, failed] = std::from_chars(header.data(), header.data() + header.size(), last);
  return failed == std::errc() ? last + 1 : asked;
}

json::array degraded(const keeper::Enforcement& enforced) {
  json::array missing;
  for (const auto& limit : keeper::not_enforced(enforced)) missing.emplace_back(limit);
  return missing;
}

json::object to_json(const sandbox::Sandbox& sandbox, const Services& services) {
  const auto& row = sandbox.row();
  const auto& enforced = services.registry.enforcement();
  json::array names;
  if (const auto env = parsed(row.env_json); env.is_object()) {
    for (const auto& [name, value] : env.as_object()) names.emplace_back(name);
  }
  return {
      {"id", row.name},
      {"podName", row.pod_name},
      {"state", name_of(sandbox.state())},
      {"createdAt", iso_time(row.created_unix_ms)},
      {"expiresAt", iso_time(sandbox.expires_unix_ms())},
      {"ttlSeconds", row.ttl_ms / 1000},
      {"template", row.template_name},
      {"workdir", row.directory},
      {"limits",
       {{"memoryBytes", row.memory_bytes},
        {"diskBytes", row.disk_bytes},
        {"inodes", row.inodes},
        {"pids", row.pids},
        {"cpuMillis", row.cpu_millis}}},
      {"isolation",
       {{"identity", host::name_of(enforced.identity)},
        {"cgroup", sys::name_of(enforced.cgroup)},
        {"landlock", enforced.landlock_abi},
        {"seccomp", true},
        {"degraded", degraded(enforced)}}},
      {"network",
       {{"mode", egress::to_json(services.networks.policy_of(sandbox), egress::Secrets::hidden).at("mode")}}},
      {"env", std::move(names)},
      {"labels", parsed(row.labels_json)},
      {"metadata", parsed(row.metadata_json)},
      {"processes", sandbox.processes().size()},
      {"notes", parsed(row.notes_json)},
  };
}

void add_limits_met(json::object& to, const sandbox::ProcessEnd& end) {
  if (end.oom_kills > 0) to["oomKills"] = end.oom_kills;
  if (end.pids_refused > 0) to["forksRefused"] = end.pids_refused;
  if (!end.note.empty()) to["note"] = replace_invalid_utf8(end.note);
}

json::object end_fields(const sandbox::ProcessEnd& end) {
  json::object object{{"exitCode", end.exit_status}, {"signal", nullptr}, {"reason", name_of(end.reason)}};
  if (end.signal != 0) object["signal"] = guest::signal_name(end.signal);
  object["durationMs"] = end.wall.count();
  object["cpuMs"] = end.cpu.count();
  object["stdoutBytes"] = end.out_bytes;
  object["stderrBytes"] = end.err_bytes;
  add_limits_met(object, end);
  return object;
}

json::object to_json(const sandbox::Process& process) {
  json::array command;
  for (const auto& word : process.request().argv) command.emplace_back(shown(word));
  json::object object{{"id", sandbox::process_id(process.number())},
                      {"cmd", std::move(command)},
                      {"state", process.end() ? "exited" : "running"},
                      {"pty", process.request().terminal},
                      {"startedAt", iso_time(process.started_unix_ms())},
                      {"durationMs", process.age().count()},
                      {"exitCode", nullptr},
                      {"signal", nullptr},
                      {"reason", nullptr},
                      {"firstSeq", process.first_sequence()},
                      {"lastSeq", process.last_sequence()}};
  if (process.end()) {
    for (auto& [key, value] : end_fields(*process.end())) object[key] = value;
  }
  return object;
}

json::object to_json(const sandbox::Process& process, const sandbox::Event& event) {
  json::object object{{"seq", event.sequence}};
  switch (event.kind) {
    case sandbox::Event::Kind::started:
      object["type"] = "started";
      if (process.request().kind == sandbox::ProcessKind::execution)
        object["executionId"] = process.request().tag.owner;
      else
        object["processId"] = sandbox::process_id(process.number());
      break;
    case sandbox::Event::Kind::out:
    case sandbox::Event::Kind::err:
      object["type"] = event.kind == sandbox::Event::Kind::out ? "stdout" : "stderr";
      if (valid_utf8(event.bytes))
        object["data"] = event.bytes;
      else
        object["base64"] = base64(event.bytes);
      break;
    case sandbox::Event::Kind::channel:  // of kernels and executions, which are no processes to callers
      break;
    case sandbox::Event::Kind::end:
      object["type"] = "end";
      for (auto& [key, value] : end_fields(*process.end())) object[key] = value;
      break;
  }
  return object;
}

bool wants_event_stream(const http::Request& request) {
  return request.header("Accept").find("text/event-stream") != std::string_view::npos;
}

http::Response event_stream() {
  return {.status = 200, .content_type = "text/event-stream", .body = {}, .headers = {{"Cache-Control", "no-cache"}}};
}

Task<bool> answer_when_done(http::Exchange& exchange, async::Signal& changed, std::function<bool()> done,
                            std::function<json::object()> result) {
  auto speak = Clock::now() + kPlainAnswer;
  bool begun = false;
  while (!done()) {
    co_await changed.wait_until(std::min(speak, Clock::now() + kPollInterval));
    if (exchange.client_gone()) co_return false;
    if (done() || Clock::now() < speak) continue;
    // Clients give up on a silent connection: the answer starts now, and blanks keep it alive.
    if (!std::exchange(begun, true)) {
      http::Response head{.status = 200};
      if (!co_await exchange.start(std::move(head))) co_return false;
    }
    if (!co_await exchange.write(" ")) co_return false;
    speak = Clock::now() + kPlainAnswer;
  }
  if (!begun) {
    auto response = http::json_response(200, result());
    [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
    co_return true;
  }
  const auto text = json::serialize(result());
  if (co_await exchange.write(text)) [[maybe_unused]]
    const auto finished = co_await exchange.finish();
  co_return true;
}

Task<> stream_events(http::Exchange& exchange, std::shared_ptr<sandbox::Process> process, std::uint64_t from) {
  auto head = event_stream();
  if (!co_await exchange.start(std::move(head))) co_return;
  sandbox::Reader reader(process, from);
  auto spoke = Clock::now();
  while (!exchange.client_gone()) {
    const auto batch = reader.take(kBatch);
    std::string text;
    if (batch.lost) {
      const json::object gap{{"type", "gap"}, {"from", batch.lost->from}, {"to", batch.lost->to}};
      text += http::sse_event(std::nullopt, "gap", json::serialize(gap));
    }
    for (const auto& event : batch.events) {
      if (event.kind == sandbox::Event::Kind::channel) continue;
      const auto object = to_json(*process, event);
      text += http::sse_event(event.sequence, object.at("type").as_string(), json::serialize(object));
    }
    if (text.empty() && !batch.over && Clock::now() - spoke >= kKeepAlive) text = http::sse_comment();
    if (!text.empty()) {
      spoke = Clock::now();
      if (!co_await exchange.write(text)) co_return;
    }
    if (batch.over) break;
    if (batch.events.empty()) co_await process->changed().wait_until(Clock::now() + milliseconds(250));
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

}  // namespace cove::doors::sandboxes
