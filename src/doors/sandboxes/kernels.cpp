#include <array>

#include "doors/sandboxes/kernel_answers.hpp"
#include "doors/sandboxes/kernel_requests.hpp"
#include "doors/sandboxes/notes.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr auto kKernelFields = std::to_array<std::string_view>({"language", "env"});

Result<sandbox::KernelLanguage> language_field(const json::object& body) {
  COVE_TRY(const auto name, text_field(body, "language"));
  const auto language = sandbox::find_kernel_language(name.value_or("python"));
  if (!language) return fail(Errc::invalid, "language must be \"python\", \"javascript\" or \"bash\"");
  return *language;
}

Task<Answer> create_kernel(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange, kKernelFields));
  COVE_CO_TRY(const auto language, language_field(body));
  COVE_CO_TRY(auto variables, environment_field(body, "env"));
  const sandbox::Sandbox::Activity activity(found);
  auto& kernels = services.registry.kernels();
  sandbox::KernelOptions options{.language = language,
                                 .variables = std::move(variables),
                                 .actor = journal::actor_of(exchange.request().principal)};
  COVE_CO_TRY(const auto kernel, co_await kernels.start(found, std::move(options)));
  // The client never learned the kernel's id.
  if (exchange.client_gone()) {
    co_await kernels.remove(found, kernel);
    co_return std::nullopt;
  }
  co_return http::json_response(201, to_json(*kernel));
}

Task<Answer> list_kernels(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  json::array list;
  for (const auto& kernel : services.registry.kernels().of(*found)) list.push_back(to_json(*kernel));
  co_return http::json_response(200, json::object{{"kernels", std::move(list)}});
}

Task<Answer> get_kernel(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request(), Need::to_know));
  co_return http::json_response(200, to_json(*named.kernel));
}

Task<Answer> delete_kernel(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request(), Need::to_speak));
  co_await services.registry.kernels().remove(named.sandbox, named.kernel,
                                              journal::actor_of(exchange.request().principal));
  named.sandbox->touch();
  co_return http::no_content();
}

Task<Answer> interrupt_kernel(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request(), Need::to_speak));
  COVE_CO_CHECK(named.kernel->interrupt(journal::actor_of(exchange.request().principal)));
  named.sandbox->touch();
  co_return http::no_content();
}

Task<Answer> restart_kernel(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request(), Need::to_speak));
  const sandbox::Sandbox::Activity activity(named.sandbox);
  COVE_CO_CHECK(co_await named.kernel->restart(journal::actor_of(exchange.request().principal)));
  co_return http::json_response(200, to_json(*named.kernel));
}

constexpr auto kKernelRoutes = std::to_array<Route>({
    {verb::post, "/v1/sandboxes/{id}/kernels", answered<create_kernel>},
    {verb::get, "/v1/sandboxes/{id}/kernels", answered<list_kernels>},
    {verb::get, "/v1/sandboxes/{id}/kernels/{kid}", answered<get_kernel>},
    {verb::delete_, "/v1/sandboxes/{id}/kernels/{kid}", answered<delete_kernel>},
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/interrupt", answered<interrupt_kernel>},
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/restart", answered<restart_kernel>},
});

}  // namespace

Routes kernel_routes() {
  return kKernelRoutes;
}

}  // namespace cove::doors::sandboxes
