#pragma once

#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cove::mcp {

// What a client wants to be notified of.
struct Subscriptions {
  bool tools = false;  // the lists
  bool prompts = false;
  bool resources = false;
  std::set<std::string> uris = {};   // resources that may change
  std::set<std::string> tasks = {};  // by id
};

// A client of the older revisions while it is connected, or one request of the newest.
struct Subscriber {
  std::string tenant;
  Subscriptions subscriptions;
  std::function<void(std::string_view method, boost::json::object params)> tell;
};

// Notifies subscribers of changes; a tenant's subscribers only of what is the tenant's own.
class Notifier {
 public:
  // For as long as the subscriber exists.
  void join(const std::shared_ptr<Subscriber>& subscriber);

  void tools_changed();
  void prompts_changed();
  void resources_changed(const std::string& tenant);
  void resource_updated(const std::string& tenant, const std::string& uri);
  void task_changed(const std::string& tenant, const std::string& id, const boost::json::object& task);

  // Whether a resource of this tenant whose address begins so has a subscriber.
  [[nodiscard]] bool wants(const std::string& tenant, std::string_view beginning) const;
  // How many resources a tenant has subscribed to.
  [[nodiscard]] std::size_t wanted(const std::string& tenant) const;

 private:
  void tell(const std::function<bool(const Subscriber&)>& who, std::string_view method,
            const boost::json::object& params);
  std::vector<std::weak_ptr<Subscriber>> subscribers_;
};

}  // namespace cove::mcp
