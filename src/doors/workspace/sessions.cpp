#include <array>
#include <ctime>

#include "doors/workspace/answers.hpp"
#include "doors/workspace/listing.hpp"
#include "sandbox/files.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::workspace {
namespace {

constexpr std::uint64_t kMaxListed = 10'000;

std::string seconds_of(std::int64_t unix_ms) {
  return fmt::format("{}.{:03}", unix_ms / 1000, unix_ms % 1000);
}

// The file helper's format: 2026-03-04T10:15:00.123Z
std::string seconds_of(const std::string& time) {
  std::tm parts{};
  const char* rest = ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return "0.0";
  const std::string_view fraction(rest);
  return fmt::format("{}{}", ::timegm(&parts), fraction.size() == 5 ? fraction.substr(0, 4) : std::string_view(".0"));
}

http::Response success() {
  return envelope(R"("status":"success")");
}

Task<Answer> create(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(const auto wanted, fastapi::valid(parse_session(body)));
  constexpr std::string_view kFailed = "Failed to create session";
  const auto& principal = exchange.request().principal;
  const auto name = sandbox::checked_name(exchange.request().param("session_id"));
  if (!name) co_return answer_to(name.error(), "Invalid session id", *config);
  if (services.draining()) {
    const Error stopping{.code = Errc::unavailable, .message = "the server is shutting down"};
    co_return answer_to(stopping, kFailed, *config);
  }
  auto request = new_session(*config, principal, *name, wanted.size);
  if (!request) {
    const auto why = "Error: Failed to mount tmpfs\nDetail: " + request.error().message;
    co_return mistake({.message = kFailed, .detail = why}, *config);
  }
  const auto made = co_await services.registry.ensure(
      std::move(*request), services.authority.allowance(principal).sandboxes, sandbox::IfThere::refuse);
  if (!made && made.error().code == Errc::exists)
    co_return mistake({.message = kFailed, .detail = "Error: Session already exists"}, *config);
  if (!made) co_return answer_to(made.error(), kFailed, *config);
  co_return envelope(fmt::format(R"("session_id":{})", json_text(*name)));
}

Task<Answer> remove(Services& services, http::Exchange& exchange) {
  const auto name = sandbox::checked_name(exchange.request().param("session_id"));
  if (!name) co_return answer_to(name.error(), "Invalid session id", *services.config());
  const auto found = co_await services.registry.find(exchange.request().principal.tenant, *name);
  if (found) co_await services.registry.remove(*found, "deleted", journal::actor_of(exchange.request().principal));
  co_return success();  // also of one that never was
}

// The regular files of the top directory.
Task<Result<std::string>> top_files(std::shared_ptr<sandbox::Sandbox> sandbox, std::function<bool()> abandoned) {
  const sandbox::SandboxFiles top(std::move(sandbox), std::move(abandoned));
  COVE_CO_TRY(const auto listing, co_await top.list(sandbox::workspace_path(""), {.max_entries = kMaxListed}));
  COVE_CO_TRY(const auto entries, regular_files(listing));
  std::string files;
  for (const auto& entry : entries) {
    files += fmt::format(R"({}{{"filename":{},"size":{},"type":{},"modified_at":{}}})", files.empty() ? "" : ",",
                         json_text(entry.path), entry.size, json_text(type_of(entry.path)), seconds_of(entry.time));
  }
  co_return files;
}

Task<Answer> status(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  const auto name = sandbox::checked_name(exchange.request().param("session_id"));
  if (!name) co_return answer_to(name.error(), "Invalid session id", *config);
  const auto found = co_await services.registry.find(exchange.request().principal.tenant, *name);
  const auto files = found ? co_await top_files(*found, gone(exchange)) : Result<std::string>(std::string());
  // It may have ended during the listing.
  if (!found || (!files && (*found)->state() != sandbox::State::running)) {
    constexpr auto kNothing =
        R"("id":{},"exists":false,"created_at":null,"mount_point":null,"is_mounted":false,"files":[])";
    co_return envelope(fmt::format(kNothing, json_text(*name)));
  }
  if (!files) co_return answer_to(files.error(), "Failed to get session status", *config);
  constexpr auto kThere =
      R"("id":{},"exists":true,"created_at":{},"mount_point":"/workspace","is_mounted":true,"files":[{}])";
  const auto created = seconds_of((*found)->row().created_unix_ms);
  co_return envelope(fmt::format(kThere, json_text(*name), created, *files));
}

std::vector<std::shared_ptr<sandbox::Sandbox>> sessions_of(const Services& services, const std::string& tenant) {
  auto all = services.registry.of(tenant, "");
  std::erase_if(all, [](const auto& sandbox) {
    const auto state = sandbox->state();
    return !is_session(*sandbox) || state == sandbox::State::creating || state == sandbox::State::deleting;
  });
  return all;
}

Task<Answer> list(Services& services, http::Exchange& exchange) {
  std::string sessions;
  for (const auto& sandbox : sessions_of(services, exchange.request().principal.tenant)) {
    sessions += fmt::format(R"({}{}:{{"mount_point":"/workspace","created_at":{}}})", sessions.empty() ? "" : ",",
                            json_text(sandbox->name()), seconds_of(sandbox->row().created_unix_ms));
  }
  co_return envelope(fmt::format(R"("workspaces":{{{}}})", sessions));
}

bool is_running(const sandbox::Sandbox& sandbox) {
  const auto processes = sandbox.processes();
  return !sandbox.interpreters().empty() ||
         std::ranges::any_of(processes, [](const auto& process) { return !process->end(); });
}

Task<Answer> clean_up(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(const auto request, fastapi::valid(parse_cleanup(body)));
  const auto sessions = sessions_of(services, exchange.request().principal.tenant);
  std::size_t removed = 0;
  std::string skipped;
  for (const auto& sandbox : sessions) {
    if (!request.force && is_running(*sandbox)) {
      skipped += fmt::format("{}{}", skipped.empty() ? "" : ",", json_text(sandbox->name() + ": 会话正在运行"));
      continue;
    }
    co_await services.registry.remove(sandbox, "deleted", journal::actor_of(exchange.request().principal));
    ++removed;
  }
  co_return envelope(
      fmt::format(R"("total":{},"success":{},"failed":[],"skipped":[{}])", sessions.size(), removed, skipped));
}

Task<Answer> healthy(Services& /*services*/, http::Exchange& /*exchange*/) {
  co_return success();
}

constexpr auto kSessionRoutes = std::to_array<Route>({
    {verb::post, "/workspace/se/session/{session_id}", answered<create>, kPlain},
    {verb::delete_, "/workspace/se/session/{session_id}", answered<remove>, kPlain},
    {verb::get, "/workspace/se/status/{session_id}", answered<status>, kPlain},
    {verb::get, "/workspace/se/workspaces", answered<list>, kPlain},
    {verb::get, "/workspace/se/healthy", answered<healthy>, kPlain},
    {verb::post, "/workspace/se/cleanup-all", answered<clean_up>, kPlain},
});

}  // namespace

Routes session_routes() {
  return kSessionRoutes;
}

}  // namespace cove::doors::workspace
