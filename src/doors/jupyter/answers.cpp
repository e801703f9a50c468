#include "doors/jupyter/answers.hpp"

#include <fmt/format.h>

#include "doors/jupyter/contents.hpp"
#include "doors/jupyter/specs.hpp"
#include "json/fields.hpp"
#include "json/shape.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxBodyElements = 50'000;

}  // namespace

http::Response answer_to(const Error& error) {
  switch (error.code) {
    case Errc::invalid:
      return http::error_response(400, "invalid", error.message);
    case Errc::not_found:
      return http::error_response(404, "not_found", error.message);
    case Errc::denied:
      return http::error_response(403, "denied", error.message);
    case Errc::quota:
      return http::error_response(403, "quota", "Resource Limit: " + error.message);
    case Errc::exists:
    case Errc::conflict:
      return http::error_response(409, "conflict", error.message);
    case Errc::over_limit:
      return http::error_response(error.sys_errno != 0 ? 503 : 413, "over_limit", error.message);
    case Errc::unavailable:
      return http::error_response(503, "unavailable", error.message);
    case Errc::unsupported:
      return http::error_response(501, "unsupported", error.message);
    case Errc::io:
      break;
  }
  return http::error_response(500, "internal", error.message);
}

http::Response in_our_form(http::Response response) {
  json::object body{{"message", response.body}, {"reason", http::reason_phrase(response.status)}};
  if (response.status == 501) body["short_message"] = response.body;
  response.body = json::serialize(body);
  response.content_type = "application/json";
  response.error_code.clear();
  return response;
}

Task<> send_answer(Services& services, http::Exchange& exchange, Answer answer) {
  if (answer && !*answer) co_return;
  const auto pass = services.gate.enter();
  auto response = answer ? std::move(**answer) : answer_to(answer.error());
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

Task<Result<json::object>> read_object(const Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await exchange.read_body(services.config->http.max_body_bytes));
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) co_return json::object();
  if (cove::json::shape_of(body).elements > kMaxBodyElements)
    co_return fail(Errc::invalid, "the body has too many elements");
  boost::system::error_code failed;
  auto value = json::parse(body, failed);
  if (failed) co_return fail(Errc::invalid, fmt::format("Invalid JSON in body of request: {}", failed.message()));
  if (value.is_null()) co_return json::object();
  if (!value.is_object()) co_return fail(Errc::invalid, "the body must be a JSON object");
  co_return std::move(value.as_object());
}

Task<Result<std::shared_ptr<sandbox::Sandbox>>> scope_of(Services& services, const http::Request& request) {
  if (services.draining()) co_return fail(Errc::unavailable, "the server is shutting down");
  const auto& named = request.param("id");
  if (!named.empty() && !request.scope.empty() && named != request.scope)
    co_return fail(Errc::not_found, fmt::format("sandbox not found: {}", named));
  auto name = named.empty() ? request.scope : named;
  if (name.empty()) co_return std::shared_ptr<sandbox::Sandbox>();
  COVE_CO_CHECK(sandbox::checked_name(name));
  co_return co_await services.registry.find(request.principal.tenant, std::move(name));
}

Task<Result<NamedKernel>> find_kernel(Services& services, const http::Request& request) {
  COVE_CO_TRY(const auto scope, co_await scope_of(services, request));
  co_return services.directory.find(request.principal.tenant, scope.get(), request.param("kernel"));
}

json::object to_json(const Services& services, const NamedKernel& named) {
  const auto hub = services.directory.known_hub(*named.kernel);
  const std::chrono::system_clock::time_point started(std::chrono::milliseconds(named.kernel->started_unix_ms()));
  json::object object{{"id", named.id},
                      {"name", spec_name(named.kernel->language())},
                      {"last_activity", iso_micros(hub ? std::max(started, hub->last_activity()) : started)},
                      {"execution_state", named.kernel->restarting() ? "restarting" : name_of(named.kernel->state())},
                      {"connections", hub ? hub->connections() : 0},
                      {"sandbox", named.sandbox->name()}};
  if (named.kernel->state() == sandbox::Kernel::State::dead) object["reason"] = named.kernel->how_it_died();
  return object;
}

}  // namespace cove::doors::jupyter
