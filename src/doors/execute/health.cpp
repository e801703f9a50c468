#include <array>

#include "doors/execute/answers.hpp"

namespace cove::doors::execute {
namespace {

using config::ReportedVersion;

std::string_view text_of(ReportedVersion version) {
  return version == ReportedVersion::v0_4_8 ? "0.4.8" : "0.4.4";
}

// In the form of the reported version. `trouble` is empty when the server is healthy.
std::string report(const config::Config& config, std::string_view trouble) {
  const auto version = config.execute.reported_version;
  std::string out = fmt::format(R"({{"status":"{}")", trouble.empty() ? "ok" : "error");
  if (version >= ReportedVersion::v0_3_3)
    out += fmt::format(R"(,"message":{})", trouble.empty() ? "null" : json_text(trouble));
  if (version >= ReportedVersion::v0_4_4) out += fmt::format(R"(,"version":"{}")", text_of(version));
  // The closest values that clients know: every run has a network namespace of its own, which is empty unless the
  // operator gave runs a way out.
  if (version >= ReportedVersion::v0_4_8)
    out += fmt::format(R"(,"executor_backend":"docker","network_isolation":"docker_network:{}")",
                       config.network.mode == config::NetworkMode::none ? "none" : "egress");
  return out + "}";
}

// Answered from memory. Only with a reported version does it say that the keeper is lost.
Task<Answer> health(Services& services, http::Exchange& /*exchange*/) {
  const auto config = services.config();
  const bool lost = config->execute.reported_version != ReportedVersion::off && services.registry.keeper_lost();
  co_return json(200, report(*config, lost ? "the keeper is being restarted" : ""));
}

Task<Answer> ready(Services& services, http::Exchange& /*exchange*/) {
  const auto config = services.config();
  std::string trouble = services.draining() ? "the server is shutting down" : "";
  if (trouble.empty()) {
    const auto checked = co_await services.registry.check(config->execute.check_timeout);
    if (!checked) trouble = checked.error().message;
  }
  auto response = json(trouble.empty() ? 200 : 503, report(*config, trouble));
  if (!trouble.empty()) response = later(std::move(response), config->execute.capacity_retry_after);
  co_return response;
}

constexpr auto kHealthRoutes = std::to_array<Route>({
    {verb::get, "/health", answered<health>, kStrictOpen},
    {verb::get, "/ready", answered<ready>, kStrictOpen},
});

}  // namespace

Routes health_routes() {
  return kHealthRoutes;
}

std::vector<Route> routes() {
  return http::joined<Services>({health_routes(), execute_routes(), file_routes(), session_routes()});
}

void add_routes(http::Router& router, Services& services) {
  for (const auto* path : {"/health", "/ready", "/v1/execute", "/v1/files", "/v1/sessions"})
    router.set_dialect(path, in_their_words);
  http::add_routes(router, routes(), services, "execute");
}

}  // namespace cove::doors::execute
