// Packages of MCP servers: generated from their tools, and read back as they lie in the sandbox.
#include <array>
#include <boost/json.hpp>

#include "base/text.hpp"
#include "doors/resources/answers.hpp"
#include "doors/resources/requests.hpp"
#include "doors/resources/tool_requests.hpp"

namespace cove::doors::resources {
namespace {

constexpr std::size_t kMaxServerBody = 1U << 20;
constexpr std::size_t kMaxPackageSources = 8U << 20;

// The last part of the path is the server.
Or<ServerPath> server_path(const Work& work, const http::Request& request) {
  auto path = split_server_path(request.param("relpath"));
  if (!path) return refuse(400, path.error().message);
  if (path->directory.empty()) return *path;
  // The same check that files get, so that the answer is the same.
  if (!relative_path(path->directory)) return refuse(400, kEscapes);
  if (work.sandbox->row().directory.size() + path->directory.size() > 4096)
    return refuse(400, "Invalid path: longer than 4096 bytes");
  return *path;
}

Task<Answer> generate(Services& services, http::Exchange& exchange) {
  const auto body = co_await exchange.read_body(kMaxServerBody);
  if (!body) {
    if (body.error().code == Errc::unavailable) co_return std::nullopt;
    co_return answer_to(body.error(), "");
  }
  COVE_OR_TRY(auto params, fastapi::valid(parse_server_params(*body)));
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  COVE_OR_TRY(const auto path, server_path(work, exchange.request()));
  const auto& principal = exchange.request().principal;
  params["directory"] = path.directory;
  auto definition = definition_of(path.server, std::move(params));
  if (!definition) co_return detail(500, definition.error().message);
  definition->package = path.server;
  definition->name = free_name(services.tools.list(*work.sandbox), *definition);
  const auto view = co_await services.tools.add(work.sandbox, principal, std::move(*definition));
  if (!view && view.error().code == Errc::quota) co_return answer_to(view.error(), "");
  if (!view) co_return detail(500, view.error().message);
  co_return json(200, boost::json::serialize(boost::json::value_from(view->modules)));
}

Task<Answer> package_sources(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  const auto names = exchange.request().query_all("server_name");
  if (names.empty()) {
    fastapi::Checker checker;
    checker.complain("missing", R"("query","server_name")", "Field required", "null");
    co_return fastapi::wrong(checker.problems());
  }
  const auto& server = names.back();
  const auto absent = fmt::format("MCP server {} not found", server);
  const auto relative = relative_path(exchange.request().param("relpath") + "/" + server);
  if (!relative || server.find('/') != std::string::npos) co_return detail(400, kEscapes);
  const auto directory = work.sandbox->row().directory + "/" + *relative;
  const auto listing = co_await work.files.list(directory, {.depth = 1, .max_entries = 5000});
  if (!listing) co_return answer_to(listing.error(), absent);
  boost::json::object sources;
  std::size_t size = 0;
  for (const auto& entry : listing->entries) {
    const auto name = entry.path.substr(entry.path.rfind('/') + 1);
    if (!name.ends_with(".py") || name == "__init__.py") continue;
    auto file = co_await work.files.read(directory + "/" + name);
    if (!file) continue;  // no regular file
    const auto text = co_await file->rest();
    if (!text) co_return answer_to(text.error(), absent);
    size += text->size();
    if (size > kMaxPackageSources)
      co_return detail(413, fmt::format("The sources are larger than {} bytes together", kMaxPackageSources));
    sources[name.substr(0, name.size() - 3)] = replace_invalid_utf8(*text);
  }
  co_return json(200, boost::json::serialize(sources));
}

constexpr http::RouteOptions kScopedPackage{.body_limit = kMaxServerBody, .head = false, .rest = true, .scoped = true};
constexpr http::RouteOptions kPackage{.body_limit = kMaxServerBody, .head = false, .rest = true};

constexpr auto kMcpRoutes = std::to_array<Route>({
    {verb::put, "/mcp/{relpath}", answered<generate>, kScopedPackage},
    {verb::get, "/mcp/{relpath}", answered<package_sources>, kScopedPackage},
    {verb::put, "/v1/sandboxes/{id}/resources/mcp/{relpath}", answered<generate>, kPackage},
    {verb::get, "/v1/sandboxes/{id}/resources/mcp/{relpath}", answered<package_sources>, kPackage},
});

}  // namespace

Routes mcp_routes() {
  return kMcpRoutes;
}

}  // namespace cove::doors::resources
