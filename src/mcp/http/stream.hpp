#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/signal.hpp"
#include "mcp/peer.hpp"

namespace cove::mcp_http {

// The events of one answer to a client. Keeps sent events, within bounds, for a client that reconnects.
class Stream {
 public:
  static constexpr std::size_t kMaxEvents = 1024;
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  static constexpr std::size_t kMaxUngiven = std::size_t{64} << 20;  // of answers that no reader has taken yet

  Stream(boost::asio::any_io_executor executor, std::string name);

  struct Event {
    std::uint64_t number = 0;
    std::string data;
    bool answer = false;  // else a notification or request before it
    int fault = 0;        // the code of an answer that is an error
  };

  void push(const boost::json::object& message);
  void push(const boost::json::array& answers);
  void finish();
  // Disconnects the current reader, who is to reconnect for the rest after this time.
  void part(std::chrono::milliseconds retry);

  [[nodiscard]] const std::string& name() const { return name_; }
  // "NAME_NUMBER".
  [[nodiscard]] std::string id_of(std::uint64_t number) const;
  // The events after `number`, oldest first.
  [[nodiscard]] std::vector<Event> after(std::uint64_t number) const;
  // The answer, if it is the only event and the stream has ended; else null.
  [[nodiscard]] const Event* only_answer() const;
  // Whether there is more to send than one answer.
  [[nodiscard]] bool tells() const;
  // An answer was lost because nobody read it.
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool finished() const { return finished_.has_value(); }
  [[nodiscard]] bool stale(std::chrono::steady_clock::time_point before) const {
    return finished_ && *finished_ < before;
  }
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // Becomes the reader; the previous one is disconnected.
  std::uint64_t take_reading();
  [[nodiscard]] bool reads(std::uint64_t reader) const { return reader == reader_; }
  // The last event that readers took: where a reader without a position starts.
  void gave(std::uint64_t number) { given_ = std::max(given_, number); }
  [[nodiscard]] std::uint64_t given() const { return given_; }
  // The pending disconnect, once for each part().
  std::optional<std::chrono::milliseconds> take_parting();

 private:
  void add(Event event);

  std::string name_;
  async::Signal changed_;
  std::deque<Event> events_;
  std::size_t bytes_ = 0;
  std::uint64_t next_ = 1;
  std::uint64_t reader_ = 0;
  std::uint64_t given_ = 0;
  bool broken_ = false;
  std::optional<std::chrono::milliseconds> parting_;
  std::optional<std::chrono::steady_clock::time_point> finished_;
};

// Writes everything for one posted message into a stream, which ends with the last answer.
class PostOutlet : public cove::mcp::Outlet {
 public:
  enum class Carries { everything, answers };
  PostOutlet(std::shared_ptr<Stream> stream, Carries carries) : stream_(std::move(stream)), carries_(carries) {}
  PostOutlet(const PostOutlet&) = delete;
  PostOutlet& operator=(const PostOutlet&) = delete;
  ~PostOutlet() override { stream_->finish(); }
  void send(boost::json::object message) override {
    if (carries_ == Carries::everything || !message.contains("method")) stream_->push(message);
  }
  void send_batch(boost::json::array messages) override { stream_->push(messages); }
  [[nodiscard]] bool carries_everything() const override { return carries_ == Carries::everything; }
  void part(std::chrono::milliseconds retry) override { stream_->part(retry); }

 private:
  std::shared_ptr<Stream> stream_;
  Carries carries_;
};

// A stream that does not end with an answer.
class OpenOutlet : public cove::mcp::Outlet {
 public:
  explicit OpenOutlet(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  void send(boost::json::object message) override { stream_->push(message); }
  void send_batch(boost::json::array messages) override { stream_->push(messages); }

 private:
  std::shared_ptr<Stream> stream_;
};

}  // namespace cove::mcp_http
