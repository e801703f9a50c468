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

namespace cove::doors::mcp {

// What goes to a client over one answer of many events. Keeps what was sent, within bounds, for one who comes back.
class Stream {
 public:
  static constexpr std::size_t kMostEvents = 1024;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  Stream(boost::asio::any_io_executor executor, std::string name);

  struct Event {
    std::uint64_t number = 0;
    std::string data;
    bool answer = false;  // to what the stream was made for
  };

  enum class Kind { answer, meanwhile };
  void push(std::string data, Kind kind);
  void finish();

  [[nodiscard]] const std::string& name() const { return name_; }
  // "NAME_NUMBER".
  [[nodiscard]] std::string id_of(const Event& event) const;
  // The events after `number`, oldest first.
  [[nodiscard]] std::vector<Event> after(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t last() const { return next_ - 1; }
  [[nodiscard]] bool finished() const { return finished_.has_value(); }
  [[nodiscard]] bool stale(std::chrono::steady_clock::time_point before) const {
    return finished_ && *finished_ < before;
  }
  [[nodiscard]] async::Signal& changed() { return changed_; }
  // Whoever reads it now; a new reader sends the one before away.
  std::uint64_t take_reading();
  // Whoever reads it now is to go, and to come back for the rest.
  void send_away();
  [[nodiscard]] bool sent_away() const { return sent_away_; }
  [[nodiscard]] bool reads(std::uint64_t reader) const { return reader == reader_; }

 private:
  std::string name_;
  async::Signal changed_;
  std::deque<Event> events_;
  std::size_t bytes_ = 0;
  std::uint64_t next_ = 1;
  std::uint64_t reader_ = 0;
  bool sent_away_ = false;
  std::optional<std::chrono::steady_clock::time_point> finished_;
};

// Everything that belongs to one posted message goes into a stream, which ends with the last answer.
class StreamOutlet : public cove::mcp::Outlet {
 public:
  explicit StreamOutlet(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  StreamOutlet(const StreamOutlet&) = delete;
  StreamOutlet& operator=(const StreamOutlet&) = delete;
  ~StreamOutlet() override { stream_->finish(); }
  void send(boost::json::object message) override {
    stream_->push(boost::json::serialize(message),
                  message.contains("method") ? Stream::Kind::meanwhile : Stream::Kind::answer);
  }
  void send_batch(boost::json::array messages) override {
    stream_->push(boost::json::serialize(messages), Stream::Kind::answer);
  }
  void send_away() override { stream_->send_away(); }

 private:
  std::shared_ptr<Stream> stream_;
};

// The answers alone, for one who wants JSON; what is told meanwhile is not.
struct Answer {
  explicit Answer(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
  async::Signal changed;
  boost::json::value value = nullptr;  // null when there is none
  bool over = false;
};
class AnswerOutlet : public cove::mcp::Outlet {
 public:
  explicit AnswerOutlet(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
  AnswerOutlet(const AnswerOutlet&) = delete;
  AnswerOutlet& operator=(const AnswerOutlet&) = delete;
  ~AnswerOutlet() override;
  void send(boost::json::object message) override;
  void send_batch(boost::json::array messages) override;
  [[nodiscard]] bool carries_everything() const override { return false; }

 private:
  std::shared_ptr<Answer> answer_;
};

}  // namespace cove::doors::mcp
