// The part of CodeService about resources: lists, reading, subscriptions.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "doors/mcp/content.hpp"
#include "doors/mcp/file_resources.hpp"
#include "doors/mcp/params.hpp"
#include "doors/mcp/service.hpp"
#include "mcp/page.hpp"

namespace cove::doors::mcp {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Code;
using cove::mcp::fault;
using cove::mcp::Fault;
using cove::mcp::Or;

namespace {

constexpr std::size_t kMaxSubscriptions = 1000;  // of one tenant

}  // namespace

// One kind of resources after the other; a cursor names the kind and the position in it.
Task<Or<>> CodeService::list_resources(Call& call) {
  auto place = cove::mcp::position_of(call.params);
  if (!place) co_return tl::unexpected<Fault>(place.error());
  std::size_t which = 0;
  if (!place->empty()) {
    const auto slash = std::min(place->find('/'), place->size());
    const auto [end, wrong] = std::from_chars(place->data(), place->data() + slash, which);
    if (wrong != std::errc() || end != place->data() + slash || slash == place->size() ||
        which >= offer_.resources.size())
      co_return fault(Code::invalid_params, "Invalid params: unknown cursor");
    place->erase(0, slash + 1);
  }
  json::array all;
  json::object result;
  for (; which < offer_.resources.size(); ++which, place->clear()) {
    if (all.size() >= page_size()) {
      result["nextCursor"] = cove::mcp::cursor_for(fmt::format("{}/", which));
      break;
    }
    auto page = co_await offer_.resources[which]->list(call, *place, page_size() - all.size());
    if (!page) co_return tl::unexpected<Fault>(page.error());
    for (auto& resource : page->resources) all.push_back(std::move(resource));
    if (page->next.empty()) continue;
    result["nextCursor"] = cove::mcp::cursor_for(fmt::format("{}/{}", which, page->next));
    break;
  }
  result["resources"] = std::move(all);
  co_return result;
}

Task<Or<>> CodeService::list_templates(Call& call) {
  json::array all;
  for (const auto& source : offer_.resources) {
    for (auto& one : source->templates()) all.push_back(std::move(one));
  }
  co_return cove::mcp::page_of(call.params, "resourceTemplates", all, page_size());
}

Resources* CodeService::source_of(std::string_view uri) const {
  const auto found = std::ranges::find_if(offer_.resources, [&](const auto& source) { return source->knows(uri); });
  return found == offer_.resources.end() ? nullptr : found->get();
}

Task<Or<>> CodeService::read_resource(Call& call) {
  const auto uri = needed(call.params, "uri");
  if (!uri) co_return tl::unexpected<Fault>(uri.error());
  auto* source = source_of(*uri);
  if (source == nullptr) co_return tl::unexpected<Fault>(no_resource(call, *uri));
  auto contents = co_await source->read(call, *uri);
  if (!contents) co_return tl::unexpected<Fault>(contents.error());
  co_return json::object{{"contents", std::move(*contents)}};
}

Task<Or<>> CodeService::subscribe(Call& call) {
  const auto uri = needed(call.params, "uri");
  if (!uri) co_return tl::unexpected<Fault>(uri.error());
  auto* source = source_of(*uri);
  if (source == nullptr) co_return tl::unexpected<Fault>(no_resource(call, *uri));
  if (!call.subscriber) co_return fault(Code::invalid_request, "Invalid request: initialize before subscribing");
  if (notifier_.wanted(call.tenant) >= kMaxSubscriptions)
    co_return fault(Code::invalid_params, fmt::format("The limit of {} subscriptions is reached", kMaxSubscriptions));
  const auto name = co_await source->watch(call, *uri);
  if (!name) co_return tl::unexpected<Fault>(name.error());
  call.subscriber->subscriptions.uris.insert(*name);
  co_return json::object();
}

Task<Or<>> CodeService::unsubscribe(Call& call) {
  const auto uri = needed(call.params, "uri");
  if (!uri) co_return tl::unexpected<Fault>(uri.error());
  if (!call.subscriber) co_return json::object();
  auto& wanted = call.subscriber->subscriptions.uris;
  wanted.erase(*uri);
  if (const auto place = parse_workspace_uri(*uri)) wanted.erase(workspace_uri(place->session, place->path));
  co_return json::object();
}

Task<Or<>> CodeService::honour(Call& call, cove::mcp::Subscriptions& subscriptions) {
  if (!subscriptions.tasks.empty() && !knows_tasks(call)) co_return tl::unexpected<Fault>(cove::mcp::needs_tasks());
  std::erase_if(subscriptions.tasks, [&](const std::string& id) { return !tasks_.has(call, id); });
  std::set<std::string> honoured;
  for (const auto& uri : subscriptions.uris) {
    auto* source = source_of(uri);
    if (source == nullptr || notifier_.wanted(call.tenant) + honoured.size() >= kMaxSubscriptions) continue;
    if (const auto name = co_await source->watch(call, uri)) honoured.insert(*name);
  }
  subscriptions.uris = std::move(honoured);
  co_return json::object();
}

}  // namespace cove::doors::mcp
