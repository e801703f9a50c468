#pragma once

#include <boost/json.hpp>
#include <chrono>
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
#include "base/result.hpp"
#include "mcp/client/client.hpp"
#include "mcp/client/transport.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp::client {

struct AskOptions {
  std::chrono::milliseconds timeout{60'000};  // since the last sign of life
  std::chrono::milliseconds most{600'000};    // in all
  std::function<void(const Progress&)> on_progress{};
  std::function<bool()> abandoned{};
  boost::json::object meta{};
  outbound::Headers headers{};  // of HTTP, beside the usual
  bool cancellable = true;      // the server is told when nobody waits any more
};

// Requests and answers over one transport, and what the server says and asks meanwhile. Over when its transport is.
class Connection final : public Listener, public std::enable_shared_from_this<Connection> {
 public:
  // `counters` belongs to whoever makes it, who keeps it as long.
  Connection(std::shared_ptr<const Environment> environment, std::shared_ptr<Counters> counters);
  ~Connection() override;

  void use(std::unique_ptr<Transport> transport) { transport_ = std::move(transport); }
  // From now on requests are of this revision. `settled`: the handshake is over.
  void speak(Revision revision) { revision_ = revision; }
  void settled();
  [[nodiscard]] Revision revision() const { return revision_; }

  // The answer. Errors as Client::call has them.
  async::Task<Result<Reply>> ask(std::string method, boost::json::object params, AskOptions options);
  Result<> notify(std::string_view method, boost::json::object params);
  // The same, and waits until it has arrived.
  async::Task<Result<>> deliver(std::string method, boost::json::object params);
  // What the server wants of the client, answered by the handlers.
  async::Task<Or<>> serve(std::string method, boost::json::object params);
  [[nodiscard]] boost::json::object capabilities() const;

  // The reason, once it is over.
  [[nodiscard]] const std::optional<Error>& over() const { return over_; }
  [[nodiscard]] std::size_t outstanding() const { return waiting_.size(); }
  async::Task<> close();

  std::function<void()> on_tools_changed;

  void receive(boost::json::value message, std::uint64_t bytes) override;
  void settle(std::uint64_t id, Result<Reply> outcome) override;
  void complain(std::string_view what) override;
  void resumed() override { ++counters_->resumed_streams; }
  void lost(Error why) override;

 private:
  struct Waiting;
  struct Leave;

  Outgoing notification(std::string_view method, boost::json::object params) const;
  void take(const boost::json::value& value, std::uint64_t bytes);
  void take_answer(Message message, std::uint64_t bytes);
  void take_notification(const Message& message);
  void take_progress(const boost::json::object& params);
  static async::Task<> answer(std::shared_ptr<Connection> self, Message message);
  // Puts what every request of the newest revision says about itself.
  void envelop(boost::json::object& params) const;
  void forget(std::uint64_t id, bool cancellable);
  // Whether it is still within the rate; counts it.
  bool admit_notification();
  void count_seconds();

  std::shared_ptr<const Environment> environment_;
  std::shared_ptr<Counters> counters_;
  async::TaskGroup group_;
  std::unique_ptr<Transport> transport_;
  Revision revision_ = kModern;
  bool settled_ = false;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Waiting>> waiting_;
  std::size_t answering_ = 0;
  std::optional<Error> over_;
  std::chrono::steady_clock::time_point second_{};  // of the rates
  std::size_t notifications_ = 0;
  std::size_t complaints_ = 0;
};

}  // namespace cove::mcp::client
