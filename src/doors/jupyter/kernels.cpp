#include <array>

#include "base/random_name.hpp"
#include "base/text.hpp"
#include "config/config.hpp"
#include "doors/jupyter/answers.hpp"
#include "doors/jupyter/specs.hpp"
#include "json/fields.hpp"
#include "network/requested.hpp"
#include "run/workplace.hpp"
#include "sandbox/lease.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxVariables = 256;
constexpr std::size_t kMaxVariable = 64U << 10;
constexpr std::string_view kKernelName = "kernel ";  // before the id of one that is being started

bool may_set(std::string_view name, const config::Jupyter& config) {
  return name.starts_with("KERNEL_") || std::ranges::find(config.env, name) != config.env.end();
}

// Names that the client may not set are passed over, as gateways do.
Result<std::vector<std::string>> variables_in(const json::object& body, const config::Jupyter& config) {
  std::vector<std::string> variables{"KERNEL_GATEWAY=1"};
  const auto* env = cove::json::given_field(body, "env");
  if (env == nullptr) return variables;
  if (!env->is_object()) return fail(Errc::invalid, "env must be an object");
  for (const auto& [key, value] : env->as_object()) {
    const std::string_view name = key;
    if (!may_set(name, config) || name == "KERNEL_GATEWAY" || name == "KERNEL_ID") continue;
    if (!value.is_string()) return fail(Errc::invalid, fmt::format("env.{} must be a string", name));
    const std::string_view text = value.as_string();
    if (name.find('=') != std::string_view::npos || name.find('\0') != std::string_view::npos ||
        text.find('\0') != std::string_view::npos)
      return fail(Errc::invalid, "env must not have NUL in it, nor '=' in a name");
    if (name.size() + text.size() > kMaxVariable || variables.size() >= kMaxVariables)
      return fail(Errc::invalid, "env is too large");
    variables.push_back(fmt::format("{}={}", name, text));
  }
  return variables;
}

// KERNEL_NETWORK: "none", "public", or what the sandbox may connect to, with commas in between.
Result<std::optional<egress::Policy>> network_in(const std::vector<std::string>& variables) {
  constexpr std::string_view kName = "KERNEL_NETWORK=";
  const auto found = std::ranges::find_if(variables, [&](const auto& one) { return one.starts_with(kName); });
  if (found == variables.end()) return std::nullopt;
  const auto text = found->substr(kName.size());
  json::value wanted(text);
  if (text != "none" && text != "public") {
    json::array allow;
    for (std::string_view rest = text; !rest.empty();) allow.emplace_back(take_until(rest, ','));
    wanted = json::object{{"mode", "allow"}, {"allow", std::move(allow)}};
  }
  COVE_TRY(auto policy, egress::parse_policy(wanted, "env.KERNEL_NETWORK"));
  return std::optional(std::move(policy));
}

Task<Result<sandbox::Lease>> make_sandbox(Services& services, Principal principal, KernelWish wish) {
  const bool warm = wish.language != sandbox::KernelLanguage::javascript;
  const auto config = services.config();
  sandbox::CreateRequest request;
  request.tenant = principal.tenant;
  request.actor = journal::actor_of(principal);
  request.name = random_name("jupyter-");
  request.ttl = std::min(config->jupyter.kernel_ttl, config->sandbox.max_ttl);
  request.limits = run::default_limits(*config);
  request.labels_json = Directory::kLabels;
  if (wish.network) {
    COVE_CO_CHECK(network::may_have(services, principal, *wish.network));
    request.network_json = network::text_of(*wish.network);
  }
  if (warm && config->python.warm) request.content = sandbox::Pool::Content::kernel;
  const auto quotas = services.authority.allowance(principal).sandboxes;
  COVE_CO_TRY(auto made, co_await services.registry.ensure(std::move(request), quotas, sandbox::IfThere::refuse));
  co_return sandbox::Lease(services.registry, made.sandbox);
}

Task<Answer> create(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(auto scope, co_await scope_of(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(auto wish, parse_kernel(services, body));
  COVE_CO_TRY(const auto named, co_await start_kernel(services, exchange, std::move(scope), std::move(wish)));
  if (exchange.client_gone()) {
    co_await services.directory.remove(named);  // nobody learned its id
    co_return std::nullopt;
  }
  auto response = http::json_response(201, to_json(services, named));
  response.headers.emplace_back("Location", "/api/kernels/" + named.id);
  co_return response;
}

Task<Answer> list(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto scope, co_await scope_of(services, exchange.request()));
  json::array kernels;
  for (const auto& named : services.directory.all(exchange.request().principal.tenant, scope.get()))
    kernels.push_back(to_json(services, named));
  co_return http::json_response(200, kernels);
}

Task<Answer> get(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request()));
  co_return http::json_response(200, to_json(services, named));
}

Task<Answer> remove(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(auto named, co_await find_kernel(services, exchange.request()));
  co_await services.directory.remove(std::move(named), journal::actor_of(exchange.request().principal));
  co_return http::no_content();
}

Task<Answer> interrupt(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request()));
  COVE_CO_CHECK(named.kernel->interrupt(journal::actor_of(exchange.request().principal)));
  named.sandbox->touch();
  co_return http::no_content();
}

Task<Answer> restart(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request()));
  const sandbox::Sandbox::Activity activity(named.sandbox);
  const auto hub = services.directory.hub(named);
  COVE_CO_CHECK(co_await hub->restart(journal::actor_of(exchange.request().principal)));
  co_return http::json_response(200, to_json(services, named));
}

constexpr http::RouteOptions kOptions{.scoped = true, .query_token = true};

constexpr auto kKernelRoutes = std::to_array<Route>({
    {verb::get, "/api/kernels", answered<list>, kOptions},
    {verb::post, "/api/kernels", answered<create>, kOptions},
    {verb::get, "/api/kernels/{kernel}", answered<get>, kOptions},
    {verb::delete_, "/api/kernels/{kernel}", answered<remove>, kOptions},
    {verb::post, "/api/kernels/{kernel}/interrupt", answered<interrupt>, kOptions},
    {verb::post, "/api/kernels/{kernel}/restart", answered<restart>, kOptions},
});

}  // namespace

Result<KernelWish> parse_kernel(const Services& services, const json::object& body) {
  KernelWish wish;
  COVE_TRY(const auto name, cove::json::text_field(body, "name"));
  if (name && !name->empty()) {
    const auto language = find_spec(*name);
    if (!language) return fail(Errc::not_found, fmt::format("No such kernel: {}", *name));
    wish.language = *language;
  }
  COVE_TRY(wish.variables, variables_in(body, services.config->jupyter));
  COVE_TRY(wish.network, network_in(wish.variables));
  COVE_TRY(const auto id, cove::json::text_field(body, "kernel_id"));
  if (id && !is_uuid(*id)) return fail(Errc::invalid, "kernel_id must be a UUID in lower case");
  wish.id = id.value_or("");
  return wish;
}

Task<Result<NamedKernel>> start_kernel(Services& services, http::Exchange& exchange,
                                       std::shared_ptr<sandbox::Sandbox> sandbox, KernelWish wish) {
  const auto principal = exchange.request().principal;
  const auto& tenant = principal.tenant;
  const auto there = services.directory.all(tenant, nullptr);
  const auto most = services.config->jupyter.max_kernels;
  if (most != 0 && there.size() + services.reservations.count(tenant, kKernelName) >= most)
    co_return fail(Errc::quota, fmt::format("the limit of {} kernels is reached: delete one first", most));
  if (wish.id.empty())
    wish.id = random_name("");
  else
    wish.variables.push_back("KERNEL_ID=" + wish.id);
  // Until it is in the directory.
  const auto reserved = services.reservations.try_take(tenant, std::string(kKernelName) + wish.id);
  if (!reserved || std::ranges::find(there, wish.id, &NamedKernel::id) != there.end())
    co_return fail(Errc::conflict, "a kernel with this kernel_id exists");
  if (sandbox && wish.network)
    co_return fail(Errc::invalid,
                   "env.KERNEL_NETWORK is for a sandbox of the kernel's own; this one has a policy, which PUT "
                   "/v1/sandboxes/{id}/network changes");
  std::optional<sandbox::Lease> made;
  if (!sandbox) {
    COVE_CO_TRY(auto lease, co_await make_sandbox(services, principal, wish));
    sandbox = lease.sandbox();
    made.emplace(std::move(lease));
  }
  const sandbox::Sandbox::Activity activity(sandbox);
  sandbox::KernelOptions options{
      .language = wish.language, .variables = std::move(wish.variables), .actor = journal::actor_of(principal)};
  COVE_CO_TRY(const auto kernel, co_await services.registry.kernels().start(sandbox, std::move(options)));
  if (made) made->give_away();
  for (auto& named : services.directory.all(tenant, sandbox.get())) {
    if (named.kernel == kernel) co_return std::move(named);
  }
  co_return fail(Errc::not_found, "the sandbox ended");
}

Routes kernel_routes() {
  return kKernelRoutes;
}

}  // namespace cove::doors::jupyter
