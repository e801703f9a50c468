#include "doors/mcp/file_resources.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <charconv>

#include "async/deadline.hpp"
#include "base/text.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/session_files.hpp"
#include "doors/mcp/suggestions.hpp"
#include "http/encoding.hpp"
#include "sandbox/files.hpp"

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

constexpr std::string_view kFileScheme = "workspace://";
constexpr std::size_t kMaxFilePart = std::size_t{4} << 20;  // in one answer, so that clients can read it as one line
constexpr std::size_t kMaxSessions = 20;                    // listed for one page
constexpr std::ptrdiff_t kMaxWatched = 100;                 // for one tenant
constexpr milliseconds kFileCoalesceTime{100};              // changes closer than this are one notification
constexpr milliseconds kPollInterval{250};
constexpr std::chrono::minutes kReturns{1};  // to wait for another sandbox of the same name

bool hidden(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != std::string_view::npos;
}

Session opened_without_lock(const std::shared_ptr<sandbox::Sandbox>& sandbox) {
  return {.id = sandbox->name(),
          .sandbox = sandbox,
          .activity = sandbox::Sandbox::Activity(sandbox),
          .lock = nullptr,
          .fresh = false};
}

// A directory is read as a list of the URIs of its entries.
Task<Or<json::array>> read_directory(SessionFiles& files, const Call& call, std::string uri, WorkspaceAddress place) {
  const auto listed = co_await files.list(place.path, sandbox::Recursive::no);
  if (!listed) co_return tl::unexpected<Fault>(no_resource(call, uri));
  std::string text;
  for (const auto& entry : listed->entries) text += workspace_uri(place.session, entry.path) + "\n";
  json::array contents;
  contents.push_back(json::object{{"uri", uri}, {"mimeType", "inode/directory"}, {"text", std::move(text)}});
  co_return contents;
}

}  // namespace

std::optional<WorkspaceAddress> parse_workspace_uri(std::string_view uri) {
  if (!uri.starts_with(kFileScheme)) return std::nullopt;
  uri.remove_prefix(kFileScheme.size());
  const auto session = http::percent_decode(take_until(uri, '/'));
  auto path = http::percent_decode(uri);
  if (!session || session->empty() || !path || !valid_utf8(*session) || !valid_utf8(*path)) return std::nullopt;
  while (path->ends_with('/')) path->pop_back();
  if (path->empty()) return WorkspaceAddress{.session = *session, .path = ""};
  auto checked = path_argument(std::move(*path), "path");
  if (!checked) return std::nullopt;
  return WorkspaceAddress{.session = *session, .path = std::move(*checked)};
}

Task<Result<std::vector<ResourceFile>>> files_of(Services& services, Call& call, std::string session) {
  const auto found = co_await services.registry.find(call.tenant, session);
  if (!found) co_return tl::unexpected<Error>(found.error());
  const auto opened = opened_without_lock(*found);
  SessionFiles session_files(opened, call);
  const auto listed = co_await session_files.list("", sandbox::Recursive::yes);
  if (!listed) co_return tl::unexpected<Error>(listed.error());
  std::vector<ResourceFile> files;
  for (const auto& entry : listed->entries) {
    if (entry.type == "file" && !hidden(entry.path)) files.push_back({.path = entry.path, .size = entry.size});
  }
  co_return files;
}

bool FileResources::knows(std::string_view uri) const {
  return uri.starts_with(kFileScheme);
}

json::array FileResources::templates() const {
  return {json::object{{"uriTemplate", "workspace://{session_id}/{+path}"},
                       {"name", "workspace-file"},
                       {"title", "File of a session"},
                       {"description", "A file in the /workspace of one of your sessions"}}};
}

// A position is the number of files already listed of a session, and the session: "3:name".
Task<Or<Resources::Page>> FileResources::list(Call& call, std::string position, std::size_t most) {
  std::size_t given = 0;
  std::string from;
  if (!position.empty()) {
    const auto colon = position.find(':');
    const auto [end, wrong] =
        std::from_chars(position.data(), position.data() + std::min(colon, position.size()), given);
    if (wrong != std::errc() || colon == std::string::npos || end != position.data() + colon)
      co_return fault(Code::invalid_params, "Invalid params: unknown cursor");
    from = position.substr(colon + 1);
  }
  std::vector<std::string> sessions;
  if (!from.empty() && co_await context_.services.registry.find(call.tenant, from)) sessions.push_back(from);
  for (const auto& sandbox : context_.services.registry.of(call.tenant, from)) {
    if (!context_.sessions.hidden(call, sandbox->name())) sessions.push_back(sandbox->name());
  }
  Page page;
  std::size_t looked = 0;
  for (const auto& session : sessions) {
    const auto skip = session == from ? given : 0;
    if (page.resources.size() >= most || looked++ >= kMaxSessions) {
      page.next = fmt::format("{}:{}", skip, session);
      break;
    }
    const auto files = co_await files_of(context_.services, call, session);
    if (!files) continue;  // the session has ended or is paused
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

Task<Or<json::array>> FileResources::read(Call& call, std::string uri) {
  const auto place = parse_workspace_uri(uri);
  const auto missing = [&] { return tl::unexpected<Fault>(no_resource(call, uri)); };
  if (!place) co_return missing();
  auto found = co_await context_.services.registry.find(call.tenant, place->session);
  if (!found || context_.sessions.hidden(call, place->session)) co_return missing();
  const auto opened = opened_without_lock(*found);
  SessionFiles files(opened, call);
  if (place->path.empty()) co_return co_await read_directory(files, call, uri, *place);
  auto piece = co_await files.read(place->path, 0, kMaxFilePart);
  if (!piece && piece.error().code == Errc::invalid) co_return co_await read_directory(files, call, uri, *place);
  if (!piece &&
      (piece.error().code == Errc::unavailable || piece.error().code == Errc::quota || piece.error().code == Errc::io))
    co_return fault(Code::internal, fmt::format("{} cannot be read: {}", place->path, piece.error().message));
  if (!piece) co_return missing();
  if (piece->size > kMaxFilePart) {
    json::object data{{"uri", uri}};
    co_return fault(
        Code::invalid_params,
        fmt::format("{} is larger than {} bytes: read parts of it with the tool read_file", place->path, kMaxFilePart),
        std::move(data));
  }
  json::array contents;
  contents.push_back(content_of(uri, mime_of(place->path), std::move(piece->bytes)));
  co_return contents;
}

Task<Or<std::string>> FileResources::watch(Call& call, std::string uri) {
  const auto place = parse_workspace_uri(uri);
  if (!place) co_return tl::unexpected<Fault>(no_resource(call, uri));
  auto found = co_await context_.services.registry.find(call.tenant, place->session);
  if (!found || context_.sessions.hidden(call, place->session)) co_return tl::unexpected<Fault>(no_resource(call, uri));
  auto name = workspace_uri(place->session, place->path);
  if (watched_->contains({call.tenant, place->session})) co_return name;
  if (std::ranges::count(*watched_, call.tenant, &Watched::value_type::first) >= kMaxWatched)
    co_return fault(Code::internal,
                    fmt::format("The limit of {} watched sessions is reached: try again later", kMaxWatched));
  watched_->emplace(call.tenant, place->session);
  context_.services.tasks.spawn("watch a session's files", look(this, call.tenant, place->session));
  co_return name;
}

bool FileResources::wanted(const std::string& tenant, const std::string& session) const {
  return notifier_.wants(tenant, workspace_uri(session, ""));
}

// Runs while there are subscribers, and goes on with the next sandbox of the same name when one ends.
Task<> FileResources::look(FileResources* self, std::string tenant, std::string session) {
  struct Leave {
    std::shared_ptr<Watched> watched;
    std::pair<std::string, std::string> key;
    ~Leave() { watched->erase(key); }
  } const leave{self->watched_, {tenant, session}};
  co_await async::sleep_for(kFileCoalesceTime);  // the subscription is registered by then
  auto last_there = Clock::now();
  while (self->wanted(tenant, session) && !self->context_.services.draining() && Clock::now() < last_there + kReturns) {
    auto found = co_await self->context_.services.registry.find(tenant, session);
    if (found) {
      co_await self->follow(*found, tenant, session);
      last_there = Clock::now();
    }
    co_await async::sleep_for(kPollInterval);
  }
}

Task<> FileResources::follow(std::shared_ptr<sandbox::Sandbox> sandbox, std::string tenant, std::string session) {
  const auto abandoned = [this, tenant, session] { return !wanted(tenant, session) || context_.services.draining(); };
  const sandbox::SandboxFiles files(std::move(sandbox), abandoned, sandbox::Confined::to_workspace);
  auto changes = co_await files.watch(sandbox::workspace_path(""), sandbox::Recursive::yes);
  if (!changes) co_return;
  while (!changes->over() && !abandoned()) {
    std::set<std::string> changed;
    bool listed = false;
    while (const auto change = changes->next_now()) {
      listed = listed || change->type != "modified";
      for (const auto* path : {&change->path, &change->to}) {
        if (const auto relative = sandbox::workspace_relative(*path); relative && !relative->empty())
          changed.insert(workspace_uri(session, *relative));
      }
    }
    for (const auto& uri : changed) notifier_.resource_updated(tenant, uri);
    if (listed) notifier_.resources_changed(tenant);
    if (changed.empty() && !listed)
      co_await changes->wait_until(Clock::now() + kPollInterval);
    else
      co_await async::sleep_for(kFileCoalesceTime);
  }
}

Task<std::vector<std::string>> FileResources::suggest(Call& call, std::string variable, json::object others) {
  return suggestions(context_, call, std::move(variable), std::move(others));
}

}  // namespace cove::doors::mcp
