#include "mcp/board.hpp"

#include <algorithm>

namespace cove::mcp {

namespace json = boost::json;

void Board::join(const std::shared_ptr<Ear>& ear) {
  std::erase_if(ears_, [](const auto& one) { return one.expired(); });
  ears_.push_back(ear);
}

void Board::tell(const std::function<bool(const Ear&)>& who, std::string_view method, const json::object& params) {
  const auto ears = ears_;  // one who is told may leave
  for (const auto& weak : ears) {
    const auto ear = weak.lock();
    if (ear && who(*ear)) ear->tell(method, params);
  }
}

void Board::tools_changed() {
  tell([](const Ear& ear) { return ear.wishes.tools; }, "notifications/tools/list_changed", {});
}

void Board::prompts_changed() {
  tell([](const Ear& ear) { return ear.wishes.prompts; }, "notifications/prompts/list_changed", {});
}

void Board::resources_changed(const std::string& tenant) {
  tell([&](const Ear& ear) { return ear.wishes.resources && ear.tenant == tenant; },
       "notifications/resources/list_changed", {});
}

void Board::resource_updated(const std::string& tenant, const std::string& uri) {
  tell([&](const Ear& ear) { return ear.tenant == tenant && ear.wishes.uris.contains(uri); },
       "notifications/resources/updated", {{"uri", uri}});
}

void Board::task_changed(const std::string& tenant, const std::string& id, const json::object& task) {
  tell([&](const Ear& ear) { return ear.tenant == tenant && ear.wishes.tasks.contains(id); }, "notifications/tasks",
       task);
}

bool Board::wants(const std::string& tenant, std::string_view beginning) const {
  return std::ranges::any_of(ears_, [&](const std::weak_ptr<Ear>& weak) {
    const auto ear = weak.lock();
    if (!ear || ear->tenant != tenant) return false;
    const auto found = ear->wishes.uris.lower_bound(std::string(beginning));
    return found != ear->wishes.uris.end() && found->starts_with(beginning);
  });
}

std::size_t Board::wanted(const std::string& tenant) const {
  std::size_t count = 0;
  for (const auto& weak : ears_) {
    if (const auto ear = weak.lock(); ear && ear->tenant == tenant) count += ear->wishes.uris.size();
  }
  return count;
}

}  // namespace cove::mcp
