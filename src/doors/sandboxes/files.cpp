#include <array>

#include "base/clock.hpp"
#include "doors/sandboxes/file_work.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using sandbox::Recursive;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr http::RouteOptions kAnySize{.body_limit = UINT64_MAX};
constexpr std::uint64_t kMaxEntries = 10'000;

json::object entry_json(const sandbox::FileEntry& entry) {
  const auto name = entry.path == "/" ? entry.path : entry.path.substr(entry.path.rfind('/') + 1);
  json::object object{{"path", entry.path}, {"name", name},       {"type", entry.type},
                      {"size", entry.size}, {"mode", entry.mode}, {"mtime", entry.modified}};
  if (entry.type == "symlink") object["target"] = entry.target;
  if (entry.not_utf8) object["notUtf8"] = true;
  return object;
}

Task<Answer> stat(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto path, path_query(exchange.request(), "path", ""));
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_TRY(const auto entry, co_await work.files.stat(path));
  co_return entry_answer(entry);
}

Task<Answer> list(Services& services, http::Exchange& exchange) {
  const bool whole = exchange.request().query("path").value_or("").empty();
  COVE_CO_TRY(const auto path, whole ? Result<std::string>("/workspace") : path_query(exchange.request(), "path", ""));
  COVE_CO_TRY(const auto depth, number_query(exchange.request(), "depth"));
  if (depth && (*depth < 1 || *depth > 1000)) co_return fail(Errc::invalid, "depth must be between 1 and 1000");
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  const sandbox::ListOptions options{.depth = static_cast<std::uint64_t>(depth.value_or(1)),
                                     .max_entries = kMaxEntries};
  COVE_CO_TRY(const auto listing, co_await work.files.list(path, options));
  json::array entries;
  entries.reserve(listing.entries.size());
  for (const auto& entry : listing.entries) entries.push_back(entry_json(entry));
  json::object body{{"entries", std::move(entries)}, {"truncated", listing.truncated}};
  if (listing.truncated) body["leftOut"] = listing.left_out;
  co_return http::json_response(200, std::move(body));
}

Task<Answer> remove(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto path, path_query(exchange.request(), "path", ""));
  COVE_CO_TRY(const auto recursive, flag_query(exchange.request(), "recursive"));
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_CHECK(co_await work.files.remove(path, recursive ? Recursive::yes : Recursive::no));
  co_return http::no_content();
}

struct RenameRequest {
  std::string from;
  std::string to;
  sandbox::Overwrite overwrite = sandbox::Overwrite::no;
};

Result<RenameRequest> parse_rename(const json::object& body) {
  RenameRequest request;
  COVE_TRY(const auto from, text_field(body, "from"));
  COVE_TRY(request.from, checked_path("from", from.value_or("")));
  COVE_TRY(const auto to, text_field(body, "to"));
  COVE_TRY(request.to, checked_path("to", to.value_or("")));
  COVE_TRY(const auto overwrite, bool_field(body, "overwrite"));
  if (overwrite.value_or(false)) request.overwrite = sandbox::Overwrite::yes;
  return request;
}

Task<Answer> rename(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(auto request, parse_rename(body));
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_TRY(const auto entry,
              co_await work.files.rename(std::move(request.from), std::move(request.to), request.overwrite));
  co_return entry_answer(entry);
}

Task<Answer> make_directory(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(const auto given, text_field(body, "path"));
  COVE_CO_TRY(const auto path, checked_path("path", given.value_or("")));
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_TRY(const auto entry, co_await work.files.make_directory(path));
  co_return entry_answer(entry);
}

Task<Answer> watch(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto work, co_await begin_file_work(services, exchange));
  COVE_CO_TRY(const auto path, path_query(exchange.request(), "path", ""));
  COVE_CO_TRY(const auto recursive, flag_query(exchange.request(), "recursive"));
  COVE_CO_TRY(auto changes, co_await work.files.watch(path, recursive ? Recursive::yes : Recursive::no));
  auto head = event_stream();
  if (!co_await exchange.start(std::move(head))) co_return std::nullopt;
  auto text = http::sse_comment();
  std::uint64_t sequence = 0;
  auto spoke = Clock::now();
  while (!exchange.client_gone() && !services.draining()) {
    if (!text.empty()) {
      if (!co_await exchange.write(text)) co_return std::nullopt;
      text.clear();
      spoke = Clock::now();
    }
    while (const auto change = changes.next_now()) {
      json::object event{{"type", change->type}, {"path", change->path}};
      if (!change->to.empty()) event["to"] = change->to;
      text += http::sse_event(++sequence, change->type, json::serialize(event));
    }
    if (!text.empty()) continue;
    if (changes.over()) break;
    if (Clock::now() - spoke > std::chrono::seconds(15)) text = http::sse_comment();
    co_await changes.wait_until(Clock::now() + milliseconds(250));
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

}  // namespace

Task<Result<FileWork>> begin_file_work(Services& services, const http::Exchange& exchange) {
  COVE_CO_TRY(auto found, co_await find_sandbox(services, exchange.request()));
  co_return FileWork{.files = sandbox::SandboxFiles(
                         found, [&exchange] { return exchange.client_gone(); }, sandbox::Confined::no,
                         journal::actor_of(exchange.request().principal)),
                     .activity = sandbox::Sandbox::Activity(found),
                     .pass = services.gate.enter()};
}

Result<std::string> checked_path(std::string_view field, std::string path) {
  if (path.empty()) return fail(Errc::invalid, fmt::format("{} is missing or empty", field));
  if (path.find('\0') != std::string::npos) return fail(Errc::invalid, fmt::format("{} may not contain NUL", field));
  if (path.size() > 4096) return fail(Errc::invalid, fmt::format("{} is longer than 4096 bytes", field));
  return path.starts_with('/') ? path : "/workspace/" + path;
}

Result<std::string> path_query(const http::Request& request, std::string_view name, std::string_view usual) {
  return checked_path(name, request.query(name).value_or(std::string(usual)));
}

http::Response entry_answer(const sandbox::FileEntry& entry) {
  return http::json_response(200, entry_json(entry));
}

namespace {

constexpr auto kFileRoutes = std::to_array<Route>({
    {verb::post, "/v1/sandboxes/{id}/files/upload", answered<upload_archive>, kAnySize},
    {verb::get, "/v1/sandboxes/{id}/files/download", answered<download_archive>},
    {verb::get, "/v1/sandboxes/{id}/files", answered<read_file>},
    {verb::head, "/v1/sandboxes/{id}/files", answered<read_file>},
    {verb::put, "/v1/sandboxes/{id}/files", answered<write_file>, kAnySize},
    {verb::delete_, "/v1/sandboxes/{id}/files", answered<remove>},
    {verb::get, "/v1/sandboxes/{id}/files/stat", answered<stat>},
    {verb::get, "/v1/sandboxes/{id}/files/list", answered<list>},
    {verb::post, "/v1/sandboxes/{id}/files/rename", answered<rename>},
    {verb::post, "/v1/sandboxes/{id}/files/mkdir", answered<make_directory>},
    {verb::get, "/v1/sandboxes/{id}/files/watch", answered<watch>},
});

}  // namespace

Routes file_routes() {
  return kFileRoutes;
}

}  // namespace cove::doors::sandboxes
