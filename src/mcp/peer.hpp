#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "mcp/message.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp {

using async::Task;

// Takes whole messages for the client, in order.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void send(boost::json::object message) = 0;
  virtual void send_batch(boost::json::array messages) = 0;
};

enum class Level : std::uint8_t { debug, info, notice, warning, error, critical, alert, emergency };
std::optional<Level> find_level(std::string_view name);
std::string_view name_of(Level level);

class Peer;

// One request while it is served: who asks, in which revision, and a way to tell what happens meanwhile.
class Call {
 public:
  Revision revision = kOldest;
  bool bare = false;  // nobody has said `initialize`
  std::string tenant;
  std::string key_id;
  std::string connection;  // what calls of one client have in common; "" where each stands alone
  std::string method;
  boost::json::object params;
  boost::json::object capabilities;  // the client's

  Call(boost::asio::any_io_executor executor, std::shared_ptr<Outlet> outlet)
      : changed_(std::move(executor)), outlet_(std::move(outlet)) {}

  // Nobody waits any more: whatever was begun is to be ended.
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  [[nodiscard]] async::Signal& changed() { return changed_; }
  void cancel();

  [[nodiscard]] bool wants_progress() const { return !token_.is_null(); }
  // Counts itself up.
  void progress(std::string_view message);
  [[nodiscard]] bool wants_log(Level level) const { return level_ && level >= *level_; }
  void log(Level level, std::string_view logger, boost::json::value data);

 private:
  friend class Peer;
  async::Signal changed_;
  std::shared_ptr<Outlet> outlet_;
  boost::json::value token_ = nullptr;
  std::optional<Level> level_;
  std::uint64_t steps_ = 0;
  bool cancelled_ = false;
};

// What a server offers: everything that is not the protocol's own.
class Service {
 public:
  virtual ~Service() = default;
  virtual boost::json::object info() const = 0;  // serverInfo
  virtual std::string instructions() const = 0;
  virtual boost::json::object capabilities(Revision revision) const = 0;
  // In the form of the newest revision; Peer makes of it what the client's has. Code::method_not_found for a method
  // that is not there.
  virtual Task<Or<>> serve(Call& call) = 0;
  // A client that had a connection of its own is gone.
  virtual void forget(const std::string& connection) = 0;
};

// One client, as far as a server remembers it: the revision and what it said of itself. Speaks the protocol around a
// Service.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  struct Options {
    std::string tenant;
    std::string key_id = {};
    // May begin without `initialize`, and leave out `jsonrpc`: one that is piped a line.
    bool may_be_bare = false;
  };
  Peer(boost::asio::any_io_executor executor, async::TaskGroup& tasks, Service& service, Options options);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  [[nodiscard]] Revision revision() const { return revision_.value_or(kOldest); }
  [[nodiscard]] bool initialized() const { return revision_.has_value(); }
  [[nodiscard]] const std::string& tenant() const { return options_.tenant; }
  [[nodiscard]] const std::string& key_id() const { return options_.key_id; }
  [[nodiscard]] std::size_t in_flight() const { return calls_.size(); }
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // A message or a batch, as it came. Returns at once; answers go to `outlet`, which is let go when all are given.
  void take(const boost::json::value& value, std::shared_ptr<Outlet> outlet);
  // What came was no JSON.
  void refuse(const Fault& fault, Outlet& outlet);
  // Ends whatever is being served; nothing is answered any more.
  void cancel_all();

 private:
  void take_batch(const boost::json::array& batch, const std::shared_ptr<Outlet>& outlet);
  void take_one(const boost::json::value& value, const std::shared_ptr<Outlet>& outlet);
  void hear(const Message& notification);
  static Task<> serve(std::shared_ptr<Peer> self, std::shared_ptr<Call> call, boost::json::value id);
  Task<Or<>> answer(Call& call);
  Or<> initialize(const boost::json::object& params);
  Or<> discover() const;
  Or<> set_level(const boost::json::object& params);
  Or<> enter_envelope(Call& call) const;
  [[nodiscard]] bool is_modern(Call& call) const;
  [[nodiscard]] UnknownId unknown_id() const;

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  Service& service_;
  Options options_;
  std::string connection_;
  async::Signal changed_;
  std::optional<Revision> revision_;  // negotiated
  boost::json::object capabilities_;
  std::optional<Level> level_;
  std::map<std::string, std::shared_ptr<Call>> calls_;  // by id
};

}  // namespace cove::mcp
