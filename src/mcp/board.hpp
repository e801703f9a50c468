#pragma once

#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cove::mcp {

// What somebody wants to be told of.
struct Wishes {
  bool tools = false;  // the lists
  bool prompts = false;
  bool resources = false;
  std::set<std::string> uris = {};   // resources that may change
  std::set<std::string> tasks = {};  // by id
};

// One who listens: a client of the older revisions as long as it is connected, or one request of the newest.
struct Ear {
  std::string tenant;
  Wishes wishes;
  std::function<void(std::string_view method, boost::json::object params)> tell;
};

// Where it is said that something has changed, and from where those are told who want to know. A tenant hears of its
// own things alone.
class Board {
 public:
  // Until it is let go.
  void join(const std::shared_ptr<Ear>& ear);

  void tools_changed();
  void prompts_changed();
  void resources_changed(const std::string& tenant);
  void resource_updated(const std::string& tenant, const std::string& uri);
  void task_changed(const std::string& tenant, const std::string& id, const boost::json::object& task);

  // Whether somebody wants to hear of a resource of a tenant whose address begins so.
  [[nodiscard]] bool wants(const std::string& tenant, std::string_view beginning) const;
  // How many resources a tenant wants to hear of.
  [[nodiscard]] std::size_t wanted(const std::string& tenant) const;

 private:
  void tell(const std::function<bool(const Ear&)>& who, std::string_view method, const boost::json::object& params);
  std::vector<std::weak_ptr<Ear>> ears_;
};

}  // namespace cove::mcp
