#include <array>
#include <charconv>
#include <cmath>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/notes.hpp"
#include "doors/sandboxes/requested_settings.hpp"
#include "network/requested.hpp"
#include "sandbox/name.hpp"
#include "store/secret.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr http::RouteOptions kJsonBody{.body_limit = 1U << 20};
constexpr auto kLifecycleFields = std::to_array<std::string_view>(
    {"id", "ttlSeconds", "memoryLimit", "ephemeralStorageLimit", "cpuLimit", "pidsLimit", "image", "template", "env",
     "labels", "workdir", "metadata", "dependencies", "installTimeoutSeconds", "indexUrl", "network"});
constexpr std::size_t kMetadataLimit = 16U << 10;
constexpr std::size_t kLabelLimit = 64;
constexpr std::size_t kImageLimit = 512;
constexpr std::uint64_t kMaxListed = 1000;

Result<json::object> labels_of(const json::object& body) {
  const auto* value = body.if_contains("labels");
  if (value == nullptr || value->is_null()) return json::object();
  if (!value->is_object()) return fail(Errc::invalid, "labels must be an object of strings");
  if (value->as_object().size() > kLabelLimit)
    return fail(Errc::invalid, fmt::format("labels has more than {} entries", kLabelLimit));
  for (const auto& [name, content] : value->as_object()) {
    if (name.empty() || name.size() > 128 || name.find_first_of(std::string_view("=\0", 2)) != std::string_view::npos)
      return fail(Errc::invalid, "labels has a name that is empty, too long or contains '='");
    if (!content.is_string() || content.as_string().size() > 256)
      return fail(Errc::invalid,
                  fmt::format("labels.{} must be a string of at most 256 bytes", std::string_view(name)));
  }
  return value->as_object();
}

// The template of the request: named directly, or mapped from its image.
Result<std::string> template_of(const json::object& body, const config::Config& config, json::array& notes) {
  COVE_TRY(const auto image, text_field(body, "image"));
  if (image && image->size() > kImageLimit)
    return fail(Errc::invalid, fmt::format("image is longer than {} bytes", kImageLimit));
  COVE_TRY(const auto named, text_field(body, "template"));
  if (named && !named->empty()) return *named;
  if (!image || image->empty()) return std::string(templates::kHostTemplate);
  const auto known = config.images.find(*image);
  if (known != config.images.end()) return known->second;
  if (*image != templates::kHostTemplate) {
    if (config.sandbox.strict_images)
      return fail(Errc::invalid, fmt::format("image is not configured on this server: {}", *image));
    notes.emplace_back(fmt::format("image {} is not configured here: the host template is used", *image));
  }
  return std::string(templates::kHostTemplate);
}

// The limits of the request, else of the template, else of the configuration; never above the configured maximum.
jail::Limits limits_of(const store::TemplateDefaults& requested, const store::TemplateDefaults& from,
                       const config::SandboxLimits& usual) {
  const auto first = [](auto requested, auto given, auto otherwise, auto most) {
    return requested != 0 ? requested : given != 0 ? std::min(given, most) : otherwise;
  };
  const auto memory = first(requested.memory_bytes, from.memory_bytes, usual.memory_bytes, usual.max_memory_bytes);
  return {.memory_bytes = memory,
          .disk_bytes = first(requested.disk_bytes, from.disk_bytes, usual.disk_for(memory), usual.max_disk_bytes),
          .inodes = usual.inodes,
          .pids = first(requested.pids, from.pids, usual.pids, usual.max_pids),
          .cpu_millis = first(requested.cpu_millis, from.cpu_millis, usual.cpu_millis, usual.max_cpu_millis)};
}

Result<sandbox::CreateRequest> parse_create(const json::object& body, Services& services, const Principal& principal) {
  const auto config = services.config();
  sandbox::CreateRequest request;
  request.actor = journal::actor_of(principal);
  COVE_TRY(const auto ttl, requested_ttl(body, config->sandbox));
  request.ttl = ttl.value_or(config->sandbox.ttl);
  COVE_TRY(const auto requested, requested_limits(body, config->sandbox));
  auto notes = unknown_fields(body, kLifecycleFields);
  COVE_TRY(request.template_name, template_of(body, *config, notes));
  const auto from = services.registry.templates().usable(request.template_name);
  if (!from && from.error().code == Errc::not_found)
    return fail(Errc::invalid, fmt::format("unknown template: {}", request.template_name));
  if (!from) return tl::unexpected<Error>(from.error());
  request.limits = limits_of(requested, (*from)->defaults, config->sandbox);

  const auto writable = sandbox::most_disk_bytes(request.limits.memory_bytes);
  if (request.limits.disk_bytes > writable && body.contains("ephemeralStorageLimit")) {
    notes.emplace_back(fmt::format("storage is part of memory here: {} of the {} asked for fit below memoryLimit",
                                   format_size(writable), format_size(request.limits.disk_bytes)));
  }
  COVE_TRY(request.env_json, requested_environment(body, (*from)->defaults.env_json));
  COVE_TRY(const auto workdir, text_field(body, "workdir"));
  if (workdir && *workdir != "/workspace" && *workdir != "/app")
    return fail(Errc::invalid, "workdir must be /workspace or /app");
  request.directory = workdir.value_or(request.directory);
  COVE_TRY(const auto labels, labels_of(body));
  request.labels_json = json::serialize(labels);
  if (const auto* metadata = body.if_contains("metadata"); metadata != nullptr && !metadata->is_null()) {
    if (!metadata->is_object()) return fail(Errc::invalid, "metadata must be an object");
    request.metadata_json = json::serialize(*metadata);
    if (request.metadata_json.size() > kMetadataLimit) return fail(Errc::invalid, "metadata is larger than 16 KiB");
  }
  if (const auto* network = body.if_contains("network"); network != nullptr && !network->is_null()) {
    COVE_TRY(const auto policy, network::requested_policy(services, principal, *network, {}));
    request.network_json = network::text_of(policy);
  }
  request.notes_json = json::serialize(notes);
  return request;
}

// `dependencies`: installed in the background into a sandbox that was made for this request.
Result<std::optional<packages::InstallRequest>> parse_dependencies(const json::object& body,
                                                                   const config::Config& config) {
  const auto* asked = body.if_contains("dependencies");
  if (asked == nullptr || asked->is_null() || (asked->is_array() && asked->as_array().empty()))
    return std::optional<packages::InstallRequest>();
  COVE_TRY(auto request, parse_install(body, config.dependencies, "dependencies", "installTimeoutSeconds"));
  return std::optional(std::move(request));
}

void install_dependencies(Services& services, const std::shared_ptr<sandbox::Sandbox>& sandbox,
                          std::optional<packages::InstallRequest> request) {
  // This cannot fail: nothing else installs into a new sandbox.
  if (request) [[maybe_unused]]
    const auto begun = services.installs.begin(sandbox, std::move(*request));
}

Task<Answer> put_sandbox(Services& services, http::Exchange& exchange) {
  auto read = co_await read_object(services, exchange);
  COVE_CO_TRY(const auto name, sandbox_name(exchange.request()));
  COVE_CO_TRY(const auto body, std::move(read));
  COVE_CO_CHECK(check_serving(services));
  COVE_CO_TRY(auto request, parse_create(body, services, exchange.request().principal));
  COVE_CO_TRY(auto dependencies, parse_dependencies(body, *services.config()));
  const auto& principal = exchange.request().principal;
  request.tenant = principal.tenant;
  request.name = name;
  const auto quotas = services.authority.allowance(principal).sandboxes;
  auto wanted = request;
  COVE_CO_TRY(auto ensured, co_await services.registry.ensure(std::move(wanted), quotas, sandbox::IfThere::keep));
  auto answer = to_json(*ensured.sandbox, services);
  if (ensured.created) {
    install_dependencies(services, ensured.sandbox, std::move(dependencies));
  } else {
    add_notes(answer, unknown_fields(body, kLifecycleFields));
    add_notes(answer, not_applied(body, request, *ensured.sandbox));
  }
  co_return http::json_response(200, std::move(answer));
}

// The stored answer for this Idempotency-Key; nullopt: none yet. Waits for another request with the same key.
Task<Result<std::optional<http::Response>>> answer_before(Services& services, std::string tenant, std::string key,
                                                          std::string hash) {
  const auto other = [&](const std::string& known) {
    return known == hash ? Result<>() : fail(Errc::conflict, "this Idempotency-Key was used with another body");
  };
  while (true) {
    COVE_CO_TRY(auto before, services.registry.store().idempotency().find(tenant, key));
    if (before) {
      COVE_CO_CHECK(other(before->request_hash));
      http::Response again{.status = static_cast<unsigned>(before->status), .body = before->body};
      again.headers.emplace_back("Idempotent-Replayed", "true");
      co_return std::optional(std::move(again));
    }
    const auto working = services.creating.find({tenant, key});
    if (working == services.creating.end()) co_return std::optional<http::Response>();
    const auto creation = working->second;
    COVE_CO_CHECK(other(creation->hash));
    co_await creation->over.wait();
  }
}

// Creates the sandbox and, with an Idempotency-Key, stores the answer.
Task<Answer> create_once(Services& services, sandbox::CreateRequest request,
                         std::optional<packages::InstallRequest> dependencies, sandbox::Quotas quotas, std::string key,
                         std::string hash) {
  const auto tenant = request.tenant;
  COVE_CO_TRY(auto ensured, co_await services.registry.ensure(std::move(request), quotas, sandbox::IfThere::refuse));
  install_dependencies(services, ensured.sandbox, std::move(dependencies));
  auto response = http::json_response(201, to_json(*ensured.sandbox, services));
  if (key.empty()) co_return response;
  auto& answers = services.registry.store().idempotency();
  const store::IdempotencyRow row{.tenant = tenant,
                                  .key = key,
                                  .request_hash = hash,
                                  .status = 201,
                                  .body = response.body,
                                  .created_unix_ms = unix_millis()};
  COVE_CO_CHECK(answers.insert(row));
  [[maybe_unused]] const auto pruned = answers.prune(unix_millis());
  co_return response;
}

// Marks an Idempotency-Key as in progress.
class Creating {
 public:
  Creating(Services& services, std::string tenant, std::string key, std::shared_ptr<KeyedCreation> creation)
      : services_(services), key_(std::move(tenant), std::move(key)), creation_(std::move(creation)) {
    services_.creating.emplace(key_, creation_);
  }
  Creating(const Creating&) = delete;
  Creating& operator=(const Creating&) = delete;
  ~Creating() {
    services_.creating.erase(key_);
    creation_->over.notify_all();
  }

 private:
  Services& services_;
  std::pair<std::string, std::string> key_;
  std::shared_ptr<KeyedCreation> creation_;
};

// A repeated request with the same key gets the first answer.
Task<Answer> post_sandbox(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(auto text, co_await exchange.read_body(services.config()->http.max_body_bytes));
  COVE_CO_TRY(const auto body, parse_object(text));
  COVE_CO_CHECK(check_serving(services));
  COVE_CO_TRY(auto request, parse_create(body, services, exchange.request().principal));
  COVE_CO_TRY(auto dependencies, parse_dependencies(body, *services.config()));
  COVE_CO_TRY(const auto given, text_field(body, "id"));
  const auto& principal = exchange.request().principal;
  request.tenant = principal.tenant;
  request.name = given.value_or(fmt::format("sb-{}", SandboxId::random().view().substr(0, 16)));
  COVE_CO_CHECK(sandbox::checked_name(request.name));
  const std::string key(exchange.request().header("Idempotency-Key"));
  const auto hash = store::sha256_hex(text);
  const auto quotas = services.authority.allowance(principal).sandboxes;
  if (key.size() > 255) co_return fail(Errc::invalid, "Idempotency-Key is longer than 255 bytes");
  std::optional<Creating> creating;
  if (!key.empty()) {
    COVE_CO_TRY(auto before, co_await answer_before(services, principal.tenant, key, hash));
    if (before) co_return std::move(*before);
    const auto executor = co_await boost::asio::this_coro::executor;
    creating.emplace(services, principal.tenant, key, std::make_shared<KeyedCreation>(executor, hash));
  }
  co_return co_await create_once(services, std::move(request), std::move(dependencies), quotas, key, hash);
}

Task<Answer> list_sandboxes(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto limit, number_query(request, "limit"));
  if (limit && (*limit < 1 || *limit > kMaxListed)) co_return fail(Errc::invalid, "limit must be between 1 and 1000");
  const auto count = limit.value_or(100);
  const auto cursor = from_base64url(request.query("cursor").value_or(""));
  if (!cursor) co_return fail(Errc::invalid, "cursor is not valid");
  std::vector<std::pair<std::string, std::string>> labels;
  for (const auto& label : request.query_all("label")) {
    const auto equals = label.find('=');
    if (equals == std::string::npos || equals == 0) co_return fail(Errc::invalid, "label must be name=value");
    labels.emplace_back(label.substr(0, equals), label.substr(equals + 1));
  }
  const auto state = request.query("state");
  if (state && *state != "creating" && *state != "running" && *state != "paused" && *state != "deleting")
    co_return fail(Errc::invalid, "state must be creating, running, paused or deleting");

  const auto matches = [&](const sandbox::Sandbox& sandbox) {
    if (state && *state != name_of(sandbox.state())) return false;
    if (labels.empty()) return true;
    boost::system::error_code failed;
    const auto own = json::parse(sandbox.row().labels_json, failed);
    return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
      const auto* value = failed || !own.is_object() ? nullptr : own.as_object().if_contains(label.first);
      return value != nullptr && value->is_string() && value->as_string() == label.second;
    });
  };
  json::array page;
  json::value next;
  std::string last;
  for (const auto& sandbox : services.registry.of(request.principal.tenant, *cursor)) {
    if (!matches(*sandbox)) continue;
    if (page.size() == count) {
      next = to_base64url(last);
      break;
    }
    page.push_back(to_json(*sandbox, services));
    last = sandbox->name();
  }
  co_return http::json_response(200, json::object{{"sandboxes", std::move(page)}, {"nextCursor", std::move(next)}});
}

Task<Answer> get_sandbox(Services& services, http::Exchange& exchange) {
  // An empty id names no sandbox.
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  auto object = to_json(*found, services);
  object["dependencies"] = services.installs.status(*found);
  const auto counted = co_await found->inspect();
  if (counted) {
    object["usage"] = json::object{{"memoryBytes", counted->memory_bytes},
                                   {"memoryPeakBytes", counted->memory_peak_bytes},
                                   {"cpuMs", counted->cpu_usec / 1000},
                                   {"pids", counted->processes},
                                   {"oomKills", counted->oom_kills}};
  }
  co_return http::json_response(200, std::move(object));
}

enum class Change { touch, pause, resume };

template <Change change>
Task<Answer> change_sandbox(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  Result<> done;
  if (change == Change::pause) done = co_await found->pause();
  if (change == Change::resume) done = co_await found->resume();
  COVE_CO_CHECK(done);
  found->touch();
  if (change != Change::touch)
    services.registry.publish(change == Change::pause ? "paused" : "resumed", *found, "{}",
                              journal::actor_of(exchange.request().principal));
  co_return http::json_response(200, to_json(*found, services));
}

Task<Answer> delete_sandbox(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto name, sandbox_name(exchange.request()));
  COVE_CO_TRY(const auto found, co_await services.registry.find(exchange.request().principal.tenant, name));
  co_await services.registry.remove(found, "deleted", journal::actor_of(exchange.request().principal));
  co_return http::no_content();
}

constexpr auto kLifecycleRoutes = std::to_array<Route>({
    {verb::get, "/v1/sandboxes", answered<list_sandboxes>},
    {verb::post, "/v1/sandboxes", answered<post_sandbox>, kJsonBody},
    {verb::put, "/v1/sandboxes/{id}", answered<put_sandbox>, kJsonBody},
    {verb::get, "/v1/sandboxes/{id}", answered<get_sandbox>},
    {verb::delete_, "/v1/sandboxes/{id}", answered<delete_sandbox>},
    {verb::post, "/v1/sandboxes/{id}/touch", answered<change_sandbox<Change::touch>>},
    {verb::post, "/v1/sandboxes/{id}/pause", answered<change_sandbox<Change::pause>>},
    {verb::post, "/v1/sandboxes/{id}/resume", answered<change_sandbox<Change::resume>>},
});

}  // namespace

Routes lifecycle_routes() {
  return kLifecycleRoutes;
}

}  // namespace cove::doors::sandboxes
