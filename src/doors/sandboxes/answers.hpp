#pragma once

#include <boost/json.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/sandboxes/door.hpp"
#include "http/response.hpp"
#include "json/fields.hpp"
#include "run/caller.hpp"

namespace cove::doors::sandboxes {

// The one place where errors become statuses.
http::Response answer_to(const Error& error);

// The result of a handler. nullopt: the client is gone, or the handler has written the answer itself.
using Answer = Result<std::optional<http::Response>>;

// Sends the answer, or the error as a response. A shutdown waits until it is sent.
Task<> send_answer(Services& services, http::Exchange& exchange, Answer answer);

// Adapts a handler to a route.
template <auto handler>
Task<> answered(Services& services, http::Exchange& exchange) {
  Answer answer = co_await handler(services, exchange);
  co_await send_answer(services, exchange, std::move(answer));
}

// The caller that waits for the answer.
run::Caller caller_of(const http::Exchange& exchange);

// The id of the path, checked.
Result<std::string> sandbox_name(const http::Request& request);

// The sandbox that the path names, of the caller's tenant. Errc::unavailable while the server drains.
Task<Result<std::shared_ptr<sandbox::Sandbox>>> find_sandbox(Services& services, const http::Request& request);
Result<> check_serving(const Services& services);

// A JSON object; an empty body is an empty object.
Result<boost::json::object> parse_object(std::string_view body);
// Reads the whole body, and parses it.
Task<Result<boost::json::object>> read_object(const Services& services, http::Exchange& exchange);

// Fields of a request. Absent and null: nullopt. Errc::invalid names the field.
Result<std::optional<std::string>> text_field(const boost::json::object& object, std::string_view name);
Result<std::optional<double>> number_field(const boost::json::object& object, std::string_view name);
using cove::json::bool_field;
// A non-empty array of strings without NUL, the first not empty.
Result<std::vector<std::string>> command_field(const boost::json::object& object);
// {name: value} as "K=V"; numbers and booleans become text.
Result<std::vector<std::string>> environment_field(const boost::json::object& object, std::string_view name);
// `timeoutSeconds`: more than 0, at most the limit; the default when it is absent.
Result<std::chrono::milliseconds> timeout_field(const boost::json::object& object, const config::ExecLimits& limits);
// The packages to install, from the fields with these names and `indexUrl`.
Result<packages::InstallRequest> parse_install(const boost::json::object& body, const config::Dependencies& config,
                                               std::string_view packages, std::string_view timeout);
// True for "true", "1" and "" (present without a value), false for "false" and "0".
Result<bool> flag_query(const http::Request& request, std::string_view name);
Result<std::optional<std::uint64_t>> number_query(const http::Request& request, std::string_view name);
// The port of the path.
Result<std::uint16_t> port_param(const http::Request& request);
// The first event of a stream: Last-Event-ID of a reconnecting browser wins over `from` in the address.
std::uint64_t first_event(const http::Request& request, std::uint64_t asked);

// The limits that this host does not enforce; every result lists them.
boost::json::array degraded(const keeper::Enforcement& enforced);
boost::json::object to_json(const sandbox::Sandbox& sandbox, const Services& services);
boost::json::object to_json(const sandbox::Process& process);
boost::json::object to_json(const sandbox::Process& process, const sandbox::Event& event);
// What the kernel did while it ran, and the line about it.
void add_limits_met(boost::json::object& to, const sandbox::ProcessEnd& end);
boost::json::object end_fields(const sandbox::ProcessEnd& end);

bool wants_event_stream(const http::Request& request);
// The response head of a stream of server-sent events.
http::Response event_stream();

// Answers 200 with `result` once `done`, which `changed` announces. Sends blanks meanwhile to keep the connection
// alive. False: the client disconnected first.
Task<bool> answer_when_done(http::Exchange& exchange, async::Signal& changed, std::function<bool()> done,
                            std::function<boost::json::object()> result);

// Streams a process's events until it ends, the client disconnects, or the server stops.
Task<> stream_events(http::Exchange& exchange, std::shared_ptr<sandbox::Process> process, std::uint64_t from);

}  // namespace cove::doors::sandboxes
