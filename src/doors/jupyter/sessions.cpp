#include <array>
#include <map>

#include "doors/jupyter/answers.hpp"
#include "json/fields.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxText = 1024;  // bytes of a path, a name or a type

// A session whose kernel is there.
struct LiveSession {
  NotebookRow row;
  NamedKernel named;
};

json::object to_json(const Services& services, const LiveSession& session) {
  const auto& row = session.row;
  json::object object{{"id", row.id},
                      {"path", row.path},
                      {"name", row.name},
                      {"type", row.type},
                      {"kernel", to_json(services, session.named)}};
  if (row.type == "notebook") object["notebook"] = json::object{{"path", row.path}, {"name", row.name}};
  return object;
}

Result<std::optional<std::string>> short_text(const json::object& body, std::string_view name) {
  COVE_TRY(auto text, cove::json::text_field(body, name));
  if (text && text->size() > kMaxText)
    return cove::json::wrong_field(name, fmt::format("must have at most {} bytes", kMaxText));
  return text;
}

// A session whose kernel is gone is forgotten. Errc::not_found.
Task<Result<LiveSession>> find_session(Services& services, const http::Request& request) {
  COVE_CO_TRY(const auto scope, co_await scope_of(services, request));
  const auto& tenant = request.principal.tenant;
  COVE_CO_TRY(auto row, services.notebooks.find(tenant, request.param("session")));
  if (!row) co_return fail(Errc::not_found, fmt::format("Session not found: {}", request.param("session")));
  auto named = services.directory.find(tenant, scope.get(), row->kernel);
  if (named) {
    LiveSession found{.row = std::move(*row), .named = std::move(*named)};
    co_return found;
  }
  if (!scope) COVE_CO_CHECK(services.notebooks.remove(row->id));
  co_return fail(Errc::not_found, "Kernel deleted before session");
}

// The kernel that a session is to have: one that is there, by its id, or a new one, by its name.
Task<Result<NamedKernel>> kernel_for(Services& services, http::Exchange& exchange, const json::object& body) {
  COVE_CO_TRY(auto scope, co_await scope_of(services, exchange.request()));
  COVE_CO_TRY(const auto* kernel, cove::json::object_field(body, "kernel"));
  const json::object none;
  const auto& wanted = kernel == nullptr ? none : *kernel;
  COVE_CO_TRY(const auto id, cove::json::text_field(wanted, "id"));
  if (id && !id->empty()) co_return services.directory.find(exchange.request().principal.tenant, scope.get(), *id);
  json::object asked{{"name", cove::json::text_of(wanted, "name")}};
  if (const auto* env = cove::json::given_field(wanted, "env")) asked["env"] = *env;
  auto wish = parse_kernel(services, asked);
  if (!wish && wish.error().code == Errc::not_found) co_return fail(Errc::unsupported, wish.error().message);
  if (!wish) co_return tl::unexpected<Error>(wish.error());
  co_return co_await start_kernel(services, exchange, std::move(scope), std::move(*wish));
}

Task<Answer> create(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto scope, co_await scope_of(services, exchange.request()));
  COVE_CO_TRY(auto body, co_await read_object(services, exchange));
  // The old form has the path inside `notebook`.
  if (const auto* old = body.if_contains("notebook"); old != nullptr && old->is_object() && !body.contains("path")) {
    const auto path = cove::json::text_of(old->as_object(), "path");
    body["path"] = path;
    body["type"] = "notebook";
  }
  COVE_CO_TRY(const auto path, short_text(body, "path"));
  COVE_CO_TRY(const auto type, short_text(body, "type"));
  COVE_CO_TRY(const auto name, short_text(body, "name"));
  if (!path) co_return fail(Errc::invalid, "Missing field in JSON data: path");
  if (!type) co_return fail(Errc::invalid, "Missing field in JSON data: type");
  const auto tenant = exchange.request().principal.tenant;
  // Of two that come at once for one document, the second finds what the first has made.
  const auto reserved = co_await services.reservations.take(tenant, "path " + *path);
  COVE_CO_TRY(auto row, services.notebooks.for_path(tenant, *path));
  if (row) {
    if (auto named = services.directory.find(tenant, scope.get(), row->kernel)) {
      const LiveSession there{.row = *row, .named = std::move(*named)};
      co_return http::json_response(201, to_json(services, there));
    }
  }
  COVE_CO_TRY(auto named, co_await kernel_for(services, exchange, body));
  NotebookRow made{.id = random_uuid(),
                   .tenant = tenant,
                   .path = *path,
                   .name = name.value_or(""),
                   .type = *type,
                   .kernel = named.id};
  // One whose kernel is gone makes way; one of another sandbox stays.
  if (row && !services.directory.find(tenant, nullptr, row->kernel)) COVE_CO_CHECK(services.notebooks.remove(row->id));
  if (const auto put = services.notebooks.put(made); !put) {
    const auto* kernel = cove::json::given_field(body, "kernel");
    const bool ours = kernel == nullptr || !kernel->is_object() || !kernel->as_object().contains("id");
    if (ours) co_await services.directory.remove(std::move(named));
    co_return tl::unexpected<Error>(put.error());
  }
  const LiveSession session{.row = std::move(made), .named = std::move(named)};
  auto response = http::json_response(201, to_json(services, session));
  response.headers.emplace_back("Location", "/api/sessions/" + session.row.id);
  co_return response;
}

Task<Answer> list(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto scope, co_await scope_of(services, exchange.request()));
  const auto& tenant = exchange.request().principal.tenant;
  COVE_CO_TRY(const auto rows, services.notebooks.of(tenant));
  std::map<std::string, NamedKernel> kernels;
  for (auto& named : services.directory.all(tenant, scope.get())) kernels.emplace(named.id, named);
  json::array sessions;
  for (const auto& row : rows) {
    const auto named = kernels.find(row.kernel);
    if (named == kernels.end() && !scope) COVE_CO_CHECK(services.notebooks.remove(row.id));
    if (named == kernels.end()) continue;
    const LiveSession session{.row = row, .named = named->second};
    sessions.push_back(to_json(services, session));
  }
  co_return http::json_response(200, sessions);
}

Task<Answer> get(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto session, co_await find_session(services, exchange.request()));
  co_return http::json_response(200, to_json(services, session));
}

// Another kernel takes the place of the old one, which ends.
Task<Answer> change(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto reserved =
      co_await services.reservations.take(request.principal.tenant, "session " + request.param("session"));
  COVE_CO_TRY(auto session, co_await find_session(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(const auto path, short_text(body, "path"));
  COVE_CO_TRY(const auto name, short_text(body, "name"));
  COVE_CO_TRY(const auto type, short_text(body, "type"));
  session.row.path = path.value_or(session.row.path);
  session.row.name = name.value_or(session.row.name);
  session.row.type = type.value_or(session.row.type);
  if (cove::json::given_field(body, "kernel") != nullptr) {
    COVE_CO_TRY(auto named, co_await kernel_for(services, exchange, body));
    if (named.id != session.named.id) {
      auto old = std::move(session.named);
      session.named = std::move(named);
      session.row.kernel = session.named.id;
      co_await services.directory.remove(std::move(old));
    }
  }
  COVE_CO_CHECK(services.notebooks.put(session.row));
  co_return http::json_response(200, to_json(services, session));
}

Task<Answer> remove(Services& services, http::Exchange& exchange) {
  auto session = co_await find_session(services, exchange.request());
  if (!session && session.error().message == "Kernel deleted before session")
    co_return http::error_response(410, "gone", session.error().message);
  if (!session) co_return tl::unexpected<Error>(session.error());
  COVE_CO_CHECK(services.notebooks.remove(session->row.id));
  co_await services.directory.remove(std::move(session->named));
  co_return http::no_content();
}

constexpr http::RouteOptions kOptions{.scoped = true, .query_token = true};

constexpr auto kSessionRoutes = std::to_array<Route>({
    {verb::get, "/api/sessions", answered<list>, kOptions},
    {verb::post, "/api/sessions", answered<create>, kOptions},
    {verb::get, "/api/sessions/{session}", answered<get>, kOptions},
    {verb::patch, "/api/sessions/{session}", answered<change>, kOptions},
    {verb::delete_, "/api/sessions/{session}", answered<remove>, kOptions},
});

}  // namespace

Routes session_routes() {
  return kSessionRoutes;
}

}  // namespace cove::doors::jupyter
