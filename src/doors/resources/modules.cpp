#include <array>
#include <boost/json.hpp>

#include "doors/resources/answers.hpp"
#include "doors/resources/requests.hpp"
#include "run/run.hpp"

namespace cove::doors::resources {
namespace {

constexpr std::size_t kMaxSources = 8U << 20;  // of all sources, as JSON
constexpr std::string_view kProgram = "/cove/python/module_sources.py";

std::string not_there(std::string_view name) {
  return fmt::format("Module {} not found", name);
}

// The helper's answer. It comes from the sandbox, and code there can fake it: what is passed on is an object of texts.
Answer answer_of(const std::string& output) {
  boost::system::error_code failed;
  const auto value = boost::json::parse(output, failed);
  const auto* object = failed ? nullptr : value.if_object();
  if (object == nullptr) return refuse(500, "The sandbox gave no list of sources");
  if (const auto* missing = object->if_contains("missing"); missing != nullptr && missing->is_string())
    return detail(404, not_there(missing->as_string()));
  const auto* found = object->if_contains("sources");
  if (found == nullptr || !found->is_object()) return refuse(500, "The sandbox gave no list of sources");
  std::string body;
  for (const auto& [name, source] : found->as_object()) {
    if (!source.is_string()) return refuse(500, "The sandbox gave no list of sources");
    body += fmt::format("{}{}:{}", body.empty() ? "" : ",", fastapi::json_text(name),
                        fastapi::json_text(source.as_string()));
  }
  return json(200, "{" + body + "}");
}

http::Response failure_of(const sandbox::ProcessEnd& end) {
  if (end.reason == sandbox::Reason::timeout) return detail(504, "The modules were not found in time");
  if (end.exit_status == 127) return detail(501, "This sandbox has no Python");
  const auto how = end.note.empty() ? fmt::format("exit status {}", end.exit_status) : end.note;
  return detail(500, fmt::format("The modules could not be looked for: {}", how));
}

Task<Answer> sources(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  COVE_OR_TRY(auto names, fastapi::valid(parse_modules(exchange.request())));
  for (const auto& name : names) {
    if (name.empty() || name.starts_with('-')) co_return detail(404, not_there(name));
  }
  const run::Caller caller{.principal = exchange.request().principal,
                           .gone = [&exchange] { return exchange.client_gone(); }};
  auto ticket = co_await run::admit(services, caller);
  if (!ticket) co_return answer_to(ticket.error(), "");
  if (exchange.client_gone()) co_return std::nullopt;
  std::vector<std::string> argv{"/usr/bin/python3", "-I", "-B", std::string(kProgram)};
  std::ranges::move(names, std::back_inserter(argv));
  run::Spec spec{.code = run::Command{.argv = std::move(argv)},
                 .process = {.kind = sandbox::ProcessKind::internal,
                             .timeout = services.config()->exec.timeout,
                             .output_limit = kMaxSources,
                             .history = 2 * kMaxSources,
                             .whole = true}};
  run::Workplace workplace(std::move(*ticket), work.sandbox);
  auto run = co_await run::Run::begin(caller, std::move(workplace), std::move(spec));
  if (!run) co_return answer_to(run.error(), run.error().message);
  if (!co_await run->wait()) co_return std::nullopt;
  const auto& end = run->end();
  if (end.reason != sandbox::Reason::exited || end.exit_status != 0) co_return failure_of(end);
  if (end.out_bytes > kMaxSources)
    co_return detail(413, fmt::format("The sources are larger than {} bytes together", kMaxSources));
  co_return answer_of(run->process()->text_of(sandbox::Event::Kind::out));
}

constexpr auto kModuleRoutes = std::to_array<Route>({
    {verb::get, "/modules", answered<sources>, kScoped},
    {verb::get, "/v1/sandboxes/{id}/resources/modules", answered<sources>, kPlain},
});

}  // namespace

Routes module_routes() {
  return kModuleRoutes;
}

}  // namespace cove::doors::resources
