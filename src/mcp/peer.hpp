#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/task_group.hpp"
#include "mcp/call.hpp"
#include "mcp/inquiry.hpp"
#include "mcp/request_memory.hpp"
#include "mcp/seal.hpp"

namespace cove::mcp {

// What a server offers: everything that is not the protocol's own.
class Service {
 public:
  RequestMemory request_memory;  // of all its clients
  virtual ~Service() = default;
  virtual boost::json::object info() const = 0;  // serverInfo
  virtual std::string instructions() const = 0;
  virtual boost::json::object capabilities(Revision revision) const = 0;
  // In the form of the newest revision; Peer makes of it what the client's has. Code::method_not_found for a method
  // that is not there.
  virtual Task<Or<>> serve(Call& call) = 0;
  // A client that had a connection of its own is gone.
  virtual void forget(const std::string& connection) = 0;
  // Removes subscriptions to resources that this caller cannot see, and starts watching the others.
  virtual Task<Or<>> honour(Call& call, Subscriptions& subscriptions) = 0;
  // Notifies clients of changes.
  virtual Notifier& notifier() = 0;
  // The server is stopping: open subscriptions are ended.
  virtual bool ending() const = 0;
  // The input schema of a tool; empty when there is no such tool.
  virtual boost::json::object input_schema(std::string_view /*tool*/) const { return {}; }
  // Seals state that clients hand back.
  virtual const Seal& seal() const = 0;

  // Expires with the service: at shutdown a client may be destroyed after it.
  [[nodiscard]] std::weak_ptr<const void> life() const { return life_; }

 private:
  std::shared_ptr<const void> life_ = std::make_shared<int>();
};

// One client: its revision, its capabilities and its requests in progress. Implements the protocol around a Service.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  struct Options {
    std::string tenant;
    std::string key_id = {};
    // May skip `initialize` and leave out `jsonrpc`: for requests typed or piped by hand.
    bool may_be_bare = false;
    // The revision to assume when there is no handshake.
    std::optional<Revision> assumed = {};
    std::chrono::milliseconds patience{std::chrono::minutes(2)};  // with a client that was asked something
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
  // Where messages go that belong to no request; another one takes its place. Until there is one, they go nowhere.
  void speak_on(std::shared_ptr<Outlet> outlet) { spoken_on_ = std::move(outlet); }
  // Reaches a client that has said that it is initialized.
  void notify(std::string_view method, boost::json::object params);
  // Ends what would go on for as long as the client listens; the rest is served to its end.
  void disconnect();
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
  Task<Or<>> listen(Call& call);
  Or<> set_level(const boost::json::object& params);
  Or<> enter_envelope(Call& call) const;
  [[nodiscard]] bool is_modern(Call& call) const;
  [[nodiscard]] UnknownId unknown_id() const;

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  Service& service_;
  std::weak_ptr<const void> service_life_;
  Options options_;
  std::string connection_;
  async::Signal changed_;
  std::optional<Revision> revision_;  // negotiated
  boost::json::object capabilities_;
  std::string client_;  // what it calls itself
  std::optional<Level> level_;
  std::map<std::string, std::shared_ptr<Call>> calls_;  // by id
  std::shared_ptr<Inquiry> inquiry_;
  std::shared_ptr<Outlet> spoken_on_;
  std::shared_ptr<Subscriber> subscriber_;
  bool disconnected_ = false;
  bool ready_ = false;  // it said so after `initialize`
};

}  // namespace cove::mcp
