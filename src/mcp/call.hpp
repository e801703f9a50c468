#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "mcp/message.hpp"
#include "mcp/notifier.hpp"
#include "mcp/question.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp {

using async::Task;

// Takes whole messages for the client, in order.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void send(boost::json::object message) = 0;
  virtual void send_batch(boost::json::array messages) = 0;
  // Whether notifications and requests reach the client, not only answers.
  [[nodiscard]] virtual bool carries_everything() const { return true; }
  // Ends the current stream if the client can resume it; the client is to reconnect after `retry`.
  virtual void part(std::chrono::milliseconds /*retry*/) {}
};

enum class Level : std::uint8_t { debug, info, notice, warning, error, critical, alert, emergency };
std::optional<Level> find_level(std::string_view name);
std::string_view name_of(Level level);
std::string level_names();  // for people

class Call;

// Asks the client of a call; the way differs by revision.
class Asker {
 public:
  virtual ~Asker() = default;
  virtual Task<Asked> ask(Call& call, std::vector<Question> questions) = 0;
};

// One request in progress: its caller, its revision, and a way to send notifications.
class Call {
 public:
  Revision revision = kOldest;
  bool bare = false;  // no `initialize` came before
  std::string tenant;
  std::string key_id;
  std::string client;      // what it calls itself: name and version
  std::string connection;  // the same for all calls of one client; "" for self-contained calls
  boost::json::value id = nullptr;
  std::string method;
  boost::json::object params;
  boost::json::object capabilities;        // the client's
  std::shared_ptr<Subscriber> subscriber;  // the client's, while it is connected; null for self-contained calls

  Call(boost::asio::any_io_executor executor, std::shared_ptr<Outlet> outlet)
      : changed_(std::move(executor)), outlet_(std::move(outlet)) {}

  // Copies who asks, for what and in which revision, into a call that outlives the other.
  void copy_identity_from(const Call& other);

  // The client no longer waits for the answer: work in progress must stop.
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  [[nodiscard]] async::Signal& changed() { return changed_; }
  void cancel();

  [[nodiscard]] bool wants_progress() const { return !token_.is_null(); }
  // Increments the progress by one.
  void progress(std::string_view message);
  // `done` must increase with each call.
  void progress(std::uint64_t done, std::uint64_t total);
  [[nodiscard]] bool wants_log(Level level) const { return level_ && level >= *level_; }
  void log(Level level, std::string_view logger, boost::json::value data);
  // On the stream that will carry the answer.
  void tell(boost::json::object message) { outlet_->send(std::move(message)); }
  void part(std::chrono::milliseconds retry) { outlet_->part(retry); }

  // Whether the client can be asked: it declared the capability, and requests reach it. If not, a tool uses its
  // default.
  [[nodiscard]] bool can_ask(const Question& question) const;
  // The client's answers by key, or the result to return from the call at once. In the newest revision the client then
  // repeats the call with its answers, and the call runs again from the start: before a question do nothing that must
  // not happen twice.
  Task<Asked> ask(std::vector<Question> questions);
  void ask_by(std::shared_ptr<Asker> asker) { asker_ = std::move(asker); }

 private:
  friend class Peer;
  std::shared_ptr<void> memory_;  // held for its params
  async::Signal changed_;
  std::shared_ptr<Outlet> outlet_;
  std::shared_ptr<Asker> asker_;
  boost::json::value token_ = nullptr;
  std::optional<Level> level_;
  std::uint64_t steps_ = 0;
  bool cancelled_ = false;
};

}  // namespace cove::mcp
