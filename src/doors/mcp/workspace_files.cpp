#include "doors/mcp/workspace_files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <charconv>

#include "async/deadline.hpp"
#include "base/text.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/suggestions.hpp"
#include "doors/mcp/workspace.hpp"
#include "http/encoding.hpp"
#include "sandbox/helper.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Code;
using cove::mcp::fault;
using cove::mcp::Fault;
using cove::mcp::Or;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kScheme = "workspace://";
constexpr std::string_view kRoot = "/workspace/";
constexpr std::size_t kMost = std::size_t{4} << 20;  // of one answer, so that it stays a line that clients can read
constexpr std::size_t kMostSessions = 20;            // looked into for one page
constexpr std::ptrdiff_t kMostWatched = 100;         // of one tenant
constexpr milliseconds kTogether{100};               // changes so close are told as one
constexpr milliseconds kLook{250};
constexpr std::chrono::minutes kReturns{1};  // so long another sandbox of its name is waited for

bool hidden(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != std::string_view::npos;
}

Session looked_into(const std::shared_ptr<sandbox::Sandbox>& sandbox) {
  return {.id = sandbox->name(),
          .sandbox = sandbox,
          .activity = sandbox::Sandbox::Activity(sandbox),
          .turn = nullptr,
          .fresh = false};
}

// A directory reads as the addresses of what is in it.
Task<Or<json::array>> read_directory(Workspace& workspace, const Call& call, std::string uri, WorkspacePlace place) {
  const auto listed = co_await workspace.list(place.path, Depth::one);
  if (!listed) co_return tl::unexpected<Fault>(no_resource(call, uri));
  std::string text;
  for (const auto& entry : listed->entries) text += workspace_uri(place.session, entry.path) + "\n";
  json::array contents;
  contents.push_back(json::object{{"uri", uri}, {"mimeType", "inode/directory"}, {"text", std::move(text)}});
  co_return contents;
}

}  // namespace

std::optional<WorkspacePlace> workspace_place(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const auto session = http::percent_decode(take_until(uri, '/'));
  auto path = http::percent_decode(uri);
  if (!session || session->empty() || !path || !valid_utf8(*session) || !valid_utf8(*path)) return std::nullopt;
  while (path->ends_with('/')) path->pop_back();
  if (path->empty()) return WorkspacePlace{.session = *session, .path = ""};
  auto checked = path_argument(std::move(*path), "path");
  if (!checked) return std::nullopt;
  return WorkspacePlace{.session = *session, .path = std::move(*checked)};
}

Task<Result<std::vector<WorkspaceFile>>> files_of(Services& services, Call& call, std::string session) {
  const auto found = co_await services.registry.find(call.tenant, session);
  if (!found) co_return tl::unexpected<Error>(found.error());
  const auto opened = looked_into(*found);
  Workspace workspace(opened, call);
  const auto listed = co_await workspace.list("", Depth::all);
  if (!listed) co_return tl::unexpected<Error>(listed.error());
  std::vector<WorkspaceFile> files;
  for (const auto& entry : listed->entries) {
    if (entry.type == "file" && !hidden(entry.path)) files.push_back({.path = entry.path, .size = entry.size});
  }
  co_return files;
}

bool WorkspaceFiles::knows(std::string_view uri) const {
  return uri.starts_with(kScheme);
}

json::array WorkspaceFiles::templates() const {
  return {json::object{{"uriTemplate", "workspace://{session_id}/{+path}"},
                       {"name", "workspace-file"},
                       {"title", "File of a session"},
                       {"description", "A file below /workspace of one of your sessions"}}};
}

// A place is how many files of a session were given, and the session: "3:name".
Task<Or<Resources::Page>> WorkspaceFiles::list(Call& call, std::string place, std::size_t most) {
  std::size_t given = 0;
  std::string from;
  if (!place.empty()) {
    const auto colon = place.find(':');
    const auto [end, wrong] = std::from_chars(place.data(), place.data() + std::min(colon, place.size()), given);
    if (wrong != std::errc() || colon == std::string::npos || end != place.data() + colon)
      co_return fault(Code::invalid_params, "Invalid params: no such cursor");
    from = place.substr(colon + 1);
  }
  std::vector<std::string> sessions;
  if (!from.empty() && co_await workshop_.services.registry.find(call.tenant, from)) sessions.push_back(from);
  for (const auto& sandbox : workshop_.services.registry.of(call.tenant, from)) {
    if (!workshop_.sessions.hidden(call, sandbox->name())) sessions.push_back(sandbox->name());
  }
  Page page;
  std::size_t looked = 0;
  for (const auto& session : sessions) {
    const auto skip = session == from ? given : 0;
    if (page.resources.size() >= most || looked++ >= kMostSessions) {
      page.next = fmt::format("{}:{}", skip, session);
      break;
    }
    const auto files = co_await files_of(workshop_.services, call, session);
    if (!files) continue;  // it went, or is paused
    auto at = skip;
    for (; at < files->size() && page.resources.size() < most; ++at) {
      const auto& file = (*files)[at];
      page.resources.push_back(json::object{{"uri", workspace_uri(session, file.path)},
                                            {"name", file.path},
                                            {"mimeType", mime_of(file.path)},
                                            {"size", file.size}});
    }
    if (at < files->size()) {
      page.next = fmt::format("{}:{}", at, session);
      break;
    }
  }
  co_return page;
}

Task<Or<json::array>> WorkspaceFiles::read(Call& call, std::string uri) {
  const auto place = workspace_place(uri);
  const auto missing = [&] { return tl::unexpected<Fault>(no_resource(call, uri)); };
  if (!place) co_return missing();
  auto found = co_await workshop_.services.registry.find(call.tenant, place->session);
  if (!found || workshop_.sessions.hidden(call, place->session)) co_return missing();
  const auto opened = looked_into(*found);
  Workspace workspace(opened, call);
  if (place->path.empty()) co_return co_await read_directory(workspace, call, uri, *place);
  auto piece = co_await workspace.read(place->path, 0, kMost);
  if (!piece && piece.error().code == Errc::invalid) co_return co_await read_directory(workspace, call, uri, *place);
  if (!piece &&
      (piece.error().code == Errc::unavailable || piece.error().code == Errc::quota || piece.error().code == Errc::io))
    co_return fault(Code::internal, fmt::format("{} cannot be read now: {}", place->path, piece.error().message));
  if (!piece) co_return missing();
  if (piece->size > kMost) {
    json::object data{{"uri", uri}};
    co_return fault(
        Code::invalid_params,
        fmt::format("{} is larger than {} bytes: read it in parts with the tool read_file", place->path, kMost),
        std::move(data));
  }
  json::array contents;
  contents.push_back(content_of(uri, mime_of(place->path), std::move(piece->bytes)));
  co_return contents;
}

Task<Or<std::string>> WorkspaceFiles::watch(Call& call, std::string uri) {
  const auto place = workspace_place(uri);
  if (!place) co_return tl::unexpected<Fault>(no_resource(call, uri));
  auto found = co_await workshop_.services.registry.find(call.tenant, place->session);
  if (!found || workshop_.sessions.hidden(call, place->session))
    co_return tl::unexpected<Fault>(no_resource(call, uri));
  auto name = workspace_uri(place->session, place->path);
  if (watched_->contains({call.tenant, place->session})) co_return name;
  if (std::ranges::count(*watched_, call.tenant, &Watched::value_type::first) >= kMostWatched)
    co_return fault(Code::internal, fmt::format("More than {} sessions are watched: try again later", kMostWatched));
  watched_->emplace(call.tenant, place->session);
  workshop_.services.tasks.spawn("watch a session's files", look(this, call.tenant, place->session));
  co_return name;
}

bool WorkspaceFiles::wanted(const std::string& tenant, const std::string& session) const {
  return board_.wants(tenant, workspace_uri(session, ""));
}

// As long as somebody wants to know, also over the end of a sandbox and the beginning of another of its name.
Task<> WorkspaceFiles::look(WorkspaceFiles* self, std::string tenant, std::string session) {
  struct Leave {
    std::shared_ptr<Watched> watched;
    std::pair<std::string, std::string> key;
    ~Leave() { watched->erase(key); }
  } const leave{self->watched_, {tenant, session}};
  co_await async::sleep_for(kTogether);  // whoever asked for it is on the board by then
  auto last_there = Clock::now();
  while (self->wanted(tenant, session) && !self->workshop_.services.draining() &&
         Clock::now() < last_there + kReturns) {
    auto found = co_await self->workshop_.services.registry.find(tenant, session);
    if (found) {
      co_await self->follow(*found, tenant, session);
      last_there = Clock::now();
    }
    co_await async::sleep_for(kLook);
  }
}

Task<> WorkspaceFiles::follow(std::shared_ptr<sandbox::Sandbox> sandbox, std::string tenant, std::string session) {
  std::vector<std::string> arguments{"--within", "/workspace", "watch", "/workspace", "recursive"};
  const auto abandoned = [this, tenant, session] { return !wanted(tenant, session) || workshop_.services.draining(); };
  auto helper = co_await sandbox::Helper::start(std::move(sandbox), std::move(arguments), abandoned);
  if (!helper || !co_await (*helper)->read_line()) co_return;
  while (!(*helper)->over() && !abandoned()) {
    std::set<std::string> changed;
    bool listed = false;
    while (const auto line = (*helper)->line_now()) {
      boost::system::error_code failed;
      const auto value = json::parse(*line, failed);
      const auto* event = failed ? nullptr : value.if_object();
      const auto* type = event != nullptr ? event->if_contains("type") : nullptr;
      if (type == nullptr || !type->is_string()) continue;
      listed = listed || type->as_string() != "modified";
      for (const auto* name : {"path", "to"}) {
        const auto* path = event->if_contains(name);
        if (path != nullptr && path->is_string() && std::string_view(path->as_string()).starts_with(kRoot))
          changed.insert(workspace_uri(session, std::string_view(path->as_string()).substr(kRoot.size())));
      }
    }
    for (const auto& uri : changed) board_.resource_updated(tenant, uri);
    if (listed) board_.resources_changed(tenant);
    if (changed.empty() && !listed)
      co_await (*helper)->process().changed().wait_until(Clock::now() + kLook);
    else
      co_await async::sleep_for(kTogether);
  }
}

Task<std::vector<std::string>> WorkspaceFiles::suggest(Call& call, std::string variable, json::object others) {
  return suggestions(workshop_, call, std::move(variable), std::move(others));
}

}  // namespace cove::doors::mcp
