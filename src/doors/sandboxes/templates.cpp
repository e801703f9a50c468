#include <array>
#include <cmath>

#include "base/clock.hpp"
#include "base/names.hpp"
#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/notes.hpp"
#include "doors/sandboxes/requested_settings.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using std::chrono::seconds;

constexpr http::RouteOptions kJsonBody{.body_limit = 1U << 20};
constexpr std::size_t kMaxPackages = 500;
constexpr std::size_t kMaxModules = 50;

// All tenants share templates, so whoever builds one decides what others run on.
Result<> check_operator(const Services& services, const http::Request& request) {
  if (services.authority.operates(request.principal)) return {};
  return fail(Errc::denied, "only an operator may change templates: use a key made with cove key create --operator");
}

json::value parsed(const std::string& text) {
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  return failed ? json::value() : value;
}

json::value unless_zero(std::uint64_t number) {
  return number == 0 ? json::value() : json::value(number);
}

json::object to_json(const store::TemplateDefaults& defaults) {
  json::array names;
  if (const auto env = parsed(defaults.env_json); env.is_object()) {
    for (const auto& [name, value] : env.as_object()) names.emplace_back(name);
  }
  return {{"memoryBytes", unless_zero(defaults.memory_bytes)},
          {"diskBytes", unless_zero(defaults.disk_bytes)},
          {"pids", unless_zero(defaults.pids)},
          {"cpuMillis", unless_zero(defaults.cpu_millis)},
          {"timeoutSeconds",
           defaults.timeout_ms == 0 ? json::value() : json::value(static_cast<double>(defaults.timeout_ms) / 1000)},
          {"env", std::move(names)}};
}

// The last progress line of a build.
std::string progress_of(std::string_view log) {
  std::string last;
  for (auto at = log.rfind("I: "); at != std::string_view::npos && last.empty();
       at = at == 0 ? log.npos : log.rfind("I: ", at - 1)) {
    if (at == 0 || log[at - 1] == '\n') last = log.substr(at + 3, log.find('\n', at) - at - 3);
  }
  return last;
}

json::object to_json(const store::TemplateRow& row, const Services& services) {
  json::object object{
      {"name", row.name},
      {"status", row.status},
      {"root", row.number == 0 ? "host" : "built"},
      {"from", row.number == 0 ? json::value() : json::value(row.base)},
      {"packages", parsed(row.packages_json)},
      {"languages", parsed(row.languages_json)},
      {"kernels", row.kernels},
      {"preload", parsed(row.preload_json)},
      {"defaults", to_json(row.defaults)},
      {"sizeBytes", unless_zero(row.size_bytes)},
      {"createdAt", row.number == 0 ? json::value() : json::value(iso_time(row.created_unix_ms))},
      {"builtAt", row.built_unix_ms ? json::value(iso_time(*row.built_unix_ms)) : json::value()},
  };
  if (row.status == "failed") object["reason"] = row.reason;
  if (row.status == "building") object["progress"] = progress_of(services.registry.templates().log(row.name));
  return object;
}

Result<std::vector<std::string>> names_field(const json::object& body, std::string_view field, std::size_t most,
                                             bool (*good)(std::string_view), std::string_view what) {
  std::vector<std::string> names;
  const auto* value = body.if_contains(field);
  if (value == nullptr || value->is_null()) return names;
  if (!value->is_array()) return fail(Errc::invalid, fmt::format("{} must be an array of strings", field));
  if (value->as_array().size() > most)
    return fail(Errc::invalid, fmt::format("{} has more than {} entries", field, most));
  for (const auto& item : value->as_array()) {
    if (!item.is_string()) return fail(Errc::invalid, fmt::format("{} must be an array of strings", field));
    const std::string name(item.as_string());
    if (!good(name))
      return fail(Errc::invalid,
                  fmt::format("{} contains '{}', which is not the name of {}", field, name.substr(0, 100), what));
    names.push_back(name);
  }
  return names;
}

Result<std::int64_t> execution_time(const json::object& body, const config::ExecLimits& limits) {
  COVE_TRY(const auto given, number_field(body, "timeoutSeconds"));
  if (!given) return 0;
  const auto most = std::chrono::duration<double>(limits.max_timeout).count();
  if (!(*given > 0) || *given > most)
    return fail(Errc::invalid, fmt::format("timeoutSeconds must be greater than 0 and at most {}", most));
  return std::max<std::int64_t>(1, std::llround(*given * 1000));
}

Result<store::TemplateDefaults> parse_defaults(const json::object& body, const config::Config& config) {
  COVE_TRY(auto defaults, requested_limits(body, config.sandbox));
  COVE_TRY(defaults.timeout_ms, execution_time(body, config.exec));
  COVE_TRY(defaults.env_json, requested_environment(body, "{}"));
  return defaults;
}

Result<templates::BuildRequest> parse_build(const json::object& body, const config::Config& config) {
  templates::BuildRequest request;
  COVE_TRY(const auto name, text_field(body, "name"));
  if (!name || !is_template_name(*name))
    return fail(Errc::invalid,
                "name must be 1 to 64 characters of a-z, 0-9 and - _ . and begin with a letter or digit");
  request.name = *name;
  COVE_TRY(const auto base, text_field(body, "from"));
  if (base && !base->empty()) request.base = *base;
  if (!is_template_name(request.base)) return fail(Errc::invalid, "from is not the name of a template");
  COVE_TRY(request.packages, names_field(body, "packages", kMaxPackages, is_package_name, "a Debian package"));
  COVE_TRY(request.preload, names_field(body, "preload", kMaxModules, is_module_name, "a Python module"));
  COVE_TRY(request.defaults, parse_defaults(body, config));
  request.timeout = std::chrono::ceil<seconds>(config.templates.build_timeout);
  request.max_bytes = config.templates.build_size_bytes;
  COVE_TRY(const auto given, number_field(body, "buildTimeoutSeconds"));
  if (given) {
    const auto most = static_cast<double>(request.timeout.count());
    if (!(*given >= 1) || *given > most)
      return fail(Errc::invalid, fmt::format("buildTimeoutSeconds must be at least 1 and at most {}", most));
    request.timeout = seconds(std::llround(*given));
  }
  return request;
}

Task<Answer> list_templates(Services& services, http::Exchange& exchange) {
  json::array all;
  for (const auto* row : services.registry.templates().all()) all.push_back(to_json(*row, services));
  co_return http::json_response(200, json::object{{"templates", std::move(all)}});
}

Result<const store::TemplateRow*> find_template(Services& services, const http::Request& request) {
  const auto& name = request.param("name");
  const auto* row = services.registry.templates().find(name);
  if (row == nullptr) return fail(Errc::not_found, fmt::format("template not found: {}", name));
  return row;
}

Task<Answer> get_template(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto row, find_template(services, exchange.request()));
  auto object = to_json(*row, services);
  object["installed"] = parsed(row->installed_json);
  co_return http::json_response(200, std::move(object));
}

constexpr auto kBuildFields =
    std::to_array<std::string_view>({"name", "from", "packages", "preload", "memoryLimit", "ephemeralStorageLimit",
                                     "cpuLimit", "pidsLimit", "timeoutSeconds", "env", "buildTimeoutSeconds"});
constexpr auto kChangeFields = std::to_array<std::string_view>(
    {"memoryLimit", "ephemeralStorageLimit", "cpuLimit", "pidsLimit", "timeoutSeconds", "env"});

Task<Answer> post_template(Services& services, http::Exchange& exchange) {
  auto read = co_await read_object(services, exchange, kBuildFields);
  COVE_CO_CHECK(check_operator(services, exchange.request()));
  COVE_CO_TRY(const auto body, std::move(read));
  COVE_CO_CHECK(check_serving(services));
  if (services.registry.enforcement().identity == host::IdentityMode::one_user) {
    co_return fail(Errc::unsupported,
                   "this server has a single user id: templates can only be built "
                   "as root, or with a range in /etc/subuid and /etc/subgid");
  }
  COVE_CO_TRY(auto request, parse_build(body, *services.config()));
  COVE_CO_CHECK(co_await services.registry.templates().settle());
  COVE_CO_TRY(const auto begun, services.registry.templates().build(std::move(request)));
  co_return http::json_response(202, to_json(begun, services));
}

// Changes only the given fields; null restores the server's default.
Result<store::TemplateDefaults> changed_defaults(store::TemplateDefaults defaults, const json::object& body,
                                                 const config::Config& config) {
  COVE_TRY(const auto requested, parse_defaults(body, config));
  const auto take = [&body](std::string_view field, auto& value, const auto& requested) {
    if (body.contains(field)) value = requested;
  };
  take("memoryLimit", defaults.memory_bytes, requested.memory_bytes);
  take("ephemeralStorageLimit", defaults.disk_bytes, requested.disk_bytes);
  take("pidsLimit", defaults.pids, requested.pids);
  take("cpuLimit", defaults.cpu_millis, requested.cpu_millis);
  take("timeoutSeconds", defaults.timeout_ms, requested.timeout_ms);
  take("env", defaults.env_json, requested.env_json);
  return defaults;
}

Task<Answer> patch_template(Services& services, http::Exchange& exchange) {
  auto read = co_await read_object(services, exchange, kChangeFields);
  COVE_CO_CHECK(check_operator(services, exchange.request()));
  COVE_CO_TRY(const auto body, std::move(read));
  COVE_CO_TRY(const auto row, find_template(services, exchange.request()));
  COVE_CO_TRY(const auto defaults, changed_defaults(row->defaults, body, *services.config()));
  COVE_CO_TRY(const auto changed, services.registry.templates().change(row->name, defaults));
  co_return http::json_response(200, to_json(changed, services));
}

Task<Answer> delete_template(Services& services, http::Exchange& exchange) {
  COVE_CO_CHECK(check_operator(services, exchange.request()));
  COVE_CO_CHECK(co_await services.registry.remove_template(exchange.request().param("name")));
  co_return http::no_content();
}

// Build logs are for operators only.
Task<Answer> get_log(Services& services, http::Exchange& exchange) {
  COVE_CO_CHECK(check_operator(services, exchange.request()));
  COVE_CO_TRY(const auto row, find_template(services, exchange.request()));
  COVE_CO_TRY(const auto from, number_query(exchange.request(), "from"));
  const auto log = services.registry.templates().log(row->name);
  co_return http::text_response(200, log.substr(std::min<std::uint64_t>(from.value_or(0), log.size())));
}

constexpr auto kTemplateRoutes = std::to_array<Route>({
    {verb::get, "/v1/templates", answered<list_templates>},
    {verb::post, "/v1/templates", answered<post_template>, kJsonBody},
    {verb::get, "/v1/templates/{name}", answered<get_template>},
    {verb::patch, "/v1/templates/{name}", answered<patch_template>, kJsonBody},
    {verb::delete_, "/v1/templates/{name}", answered<delete_template>},
    {verb::get, "/v1/templates/{name}/log", answered<get_log>},
});

}  // namespace

Routes template_routes() {
  return kTemplateRoutes;
}

}  // namespace cove::doors::sandboxes
