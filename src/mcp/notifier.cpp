#include "mcp/notifier.hpp"

#include <algorithm>

namespace cove::mcp {

namespace json = boost::json;

void Notifier::join(const std::shared_ptr<Subscriber>& subscriber) {
  std::erase_if(subscribers_, [](const auto& one) { return one.expired(); });
  subscribers_.push_back(subscriber);
}

void Notifier::tell(const std::function<bool(const Subscriber&)>& who, std::string_view method,
                    const json::object& params) {
  const auto subscribers = subscribers_;  // a subscriber may leave while it is notified
  for (const auto& weak : subscribers) {
    const auto subscriber = weak.lock();
    if (subscriber && who(*subscriber)) subscriber->tell(method, params);
  }
}

void Notifier::tools_changed() {
  tell([](const Subscriber& subscriber) { return subscriber.subscriptions.tools; }, "notifications/tools/list_changed",
       {});
}

void Notifier::prompts_changed() {
  tell([](const Subscriber& subscriber) { return subscriber.subscriptions.prompts; },
       "notifications/prompts/list_changed", {});
}

void Notifier::resources_changed(const std::string& tenant) {
  tell([&](const Subscriber& subscriber) { return subscriber.subscriptions.resources && subscriber.tenant == tenant; },
       "notifications/resources/list_changed", {});
}

void Notifier::resource_updated(const std::string& tenant, const std::string& uri) {
  tell(
      [&](const Subscriber& subscriber) {
        return subscriber.tenant == tenant && subscriber.subscriptions.uris.contains(uri);
      },
      "notifications/resources/updated", {{"uri", uri}});
}

void Notifier::task_changed(const std::string& tenant, const std::string& id, const json::object& task) {
  tell(
      [&](const Subscriber& subscriber) {
        return subscriber.tenant == tenant && subscriber.subscriptions.tasks.contains(id);
      },
      "notifications/tasks", task);
}

bool Notifier::wants(const std::string& tenant, std::string_view beginning) const {
  return std::ranges::any_of(subscribers_, [&](const std::weak_ptr<Subscriber>& weak) {
    const auto subscriber = weak.lock();
    if (!subscriber || subscriber->tenant != tenant) return false;
    const auto found = subscriber->subscriptions.uris.lower_bound(std::string(beginning));
    return found != subscriber->subscriptions.uris.end() && found->starts_with(beginning);
  });
}

std::size_t Notifier::wanted(const std::string& tenant) const {
  std::size_t count = 0;
  for (const auto& weak : subscribers_) {
    if (const auto subscriber = weak.lock(); subscriber && subscriber->tenant == tenant)
      count += subscriber->subscriptions.uris.size();
  }
  return count;
}

}  // namespace cove::mcp
