#include "mcp/board.hpp"

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

std::set<std::string> Board::wanted(const std::string& tenant) const {
  std::set<std::string> uris;
  for (const auto& weak : ears_) {
    if (const auto ear = weak.lock(); ear && ear->tenant == tenant)
      uris.insert(ear->wishes.uris.begin(), ear->wishes.uris.end());
  }
  return uris;
}

}  // namespace cove::mcp
