#include "sandbox/process.hpp"

#include <signal.h>

#include <algorithm>

#include "base/clock.hpp"
#include "sandbox/channel.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kLag = 256U << 10;      // bytes a reader may be behind before the producer waits for it
constexpr std::chrono::seconds kStalled{10};  // a reader that took nothing for this long is not waited for
constexpr std::chrono::seconds kGrace{2};     // for a tree to die before everything in the sandbox does
constexpr std::size_t kInputChunk = 64U << 10;
constexpr std::size_t kMaxEvents = 65536;
constexpr milliseconds kLookAgain{250};
constexpr std::size_t kOrdersAhead = 256U << 10;  // bytes of them that may wait for an init that does not read

Event::Kind kind_of(wire::Stream stream) {
  return stream == wire::Stream::out   ? Event::Kind::out
         : stream == wire::Stream::err ? Event::Kind::err
                                       : Event::Kind::channel;
}

milliseconds since(Clock::time_point then) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - then);
}

}  // namespace

Process::Process(boost::asio::any_io_executor executor, Sandbox& sandbox, std::uint32_t number, ProcessRequest request)
    : sandbox_(&sandbox),
      number_(number),
      request_(std::move(request)),
      changed_(executor),
      deadline_(executor),
      grace_(executor),
      started_unix_ms_(unix_millis()),
      started_at_(Clock::now()) {
  input_open_ = request_.input == InputMode::open;
}

InitLink* Process::link() const {
  return sandbox_ == nullptr ? nullptr : sandbox_->link();
}

milliseconds Process::age() const {
  return end() ? end()->wall : since(started_at_);
}

std::string Process::text_of(Event::Kind kind) const {
  std::string text;
  for (const auto& event : events_) {
    if (event.kind == kind) text += event.bytes;
  }
  return text;
}

void Process::push(Event event) {
  held_ += event.bytes.size();
  if (sandbox_ != nullptr && request_.delivery == Delivery::newest && !request_.whole)
    sandbox_->hold(event.bytes.size());
  if (request_.whole && (event.kind == Event::Kind::out || event.kind == Event::Kind::err)) {
    const auto same =
        std::find_if(events_.begin(), events_.end(), [&](const Event& e) { return e.kind == event.kind; });
    if (same != events_.end()) {
      same->bytes += event.bytes;
      return;
    }
  }
  events_.push_back(std::move(event));
  while (events_.size() > 1 && (held_ > request_.history || events_.size() > kMaxEvents) &&
         request_.delivery == Delivery::newest) {
    drop_oldest();
  }
  changed_.notify_all();
}

void Process::drop_oldest() {
  const auto size = events_.front().bytes.size();
  held_ -= size;
  if (sandbox_ != nullptr && !request_.whole) sandbox_->let_go(size);
  events_.pop_front();
}

void Process::on_started() {
  if (birth_ != Birth::pending) return;
  birth_ = Birth::running;
  started_at_ = Clock::now();
  started_unix_ms_ = unix_millis();
  next_ = wire::kFirstOutput;
  push({.sequence = 1, .kind = Event::Kind::started, .bytes = {}});
  if (request_.timeout) arm(*request_.timeout);
}

void Process::on_failed(const wire::SpawnFailed& failure) {
  birth_ = Birth::failed;
  failure_ = failure;
  changed_.notify_all();
}

// A process that the front before this one started.
void Process::on_known(const wire::Known& known) {
  birth_ = Birth::running;
  input_taken_ = input_sent_ = known.input_received;
  channel_taken_ = channel_sent_ = known.channel_received;
  next_ = known.first_sequence;
  if (known.first_sequence == wire::kFirstOutput) {
    next_ = wire::kFirstOutput;
    push({.sequence = 1, .kind = Event::Kind::started, .bytes = {}});
  }
  feed_channel();
}

void Process::charge_from_now() {
  if (sandbox_ != nullptr) sandbox_->charge(*this);
}

void Process::arm(milliseconds left) {
  deadline_.expires_after(left);
  deadline_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (!failed && self && !self->end_) self->stop(Reason::timeout);
  });
}

void Process::on_output(const wire::Output& output) {
  const auto index = wire::index_of(output.stream);
  received_[index] = std::max(received_[index], output.offset + output.bytes.size());
  next_ = output.sequence + 1;
  push({.sequence = output.sequence, .kind = kind_of(output.stream), .bytes = std::string(output.bytes)});
  acknowledge();
}

bool Process::held_back() const {
  if (request_.delivery == Delivery::everything) return held_ > kLag;
  const auto lags = [&](const Reader* reader) {
    if (Clock::now() - reader->progress_ > kStalled) return false;
    std::size_t behind = 0;
    for (auto event = events_.rbegin(); event != events_.rend() && event->sequence >= reader->next_; ++event) {
      behind += event->bytes.size();
      if (behind > kLag) return true;
    }
    return false;
  };
  return std::any_of(readers_.begin(), readers_.end(), lags);
}

void Process::acknowledge() {
  if (link() == nullptr || held_back()) return;
  for (const auto stream : wire::kStreams) {
    const auto index = wire::index_of(stream);
    if (received_[index] == acknowledged_[index]) continue;
    acknowledged_[index] = received_[index];
    link()->acknowledge(number_, stream, received_[index]);
  }
  sandbox_->flush();
}

void Process::on_flood() {
  stop(Reason::output_limit);
}

void Process::on_input_room(std::uint64_t taken) {
  input_taken_ = taken;
  input_sent_ = std::max(input_sent_, taken);
  changed_.notify_all();
}

void Process::on_channel_room(std::uint64_t taken) {
  channel_taken_ = taken;
  feed_channel();
}

Result<> Process::send(std::string_view message) {
  if (end_ || sandbox_ == nullptr) return fail(Errc::conflict, "the process has ended");
  for (auto& record : records_of(message)) records_.push_back(std::move(record));
  feed_channel();
  return {};
}

void Process::feed_channel() {
  if (birth_ != Birth::running) return;  // how much of it init has is not known yet
  while (!records_.empty() && link() != nullptr &&
         channel_sent_ - std::min(channel_sent_, channel_taken_) + records_.front().size() <= wire::kChannelAhead) {
    channel_sent_ += records_.front().size();
    link()->channel_record(number_, records_.front());
    records_.pop_front();
  }
  if (link() != nullptr) sandbox_->flush();
}

void Process::stop(Reason reason) {
  if (end_ || stopped_by_us_ || link() == nullptr) return;
  stopped_by_us_ = reason;
  link()->kill_tree(number_);
  sandbox_->flush();
  allow_grace();
}

// Its tree gets a moment to die; then everything in the sandbox does. A paused one has not begun to.
void Process::allow_grace() {
  grace_.expires_after(kGrace);
  grace_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (failed || !self || self->exited_ || self->end_ || self->link() == nullptr) return;
    if (self->sandbox_->state() == State::paused) {
      self->allow_grace();
      return;
    }
    self->link()->kill_everything();
    self->sandbox_->flush();
  });
}

// Orders wait in our memory until init reads them.
Result<> Process::check_orders() const {
  if (end() || link() == nullptr) return fail(Errc::conflict, "the process has ended");
  if (link()->waiting() > kOrdersAhead)
    return fail(Errc::conflict, "the sandbox takes no more orders now: it is paused, or has no processor time");
  return {};
}

Result<> Process::signal(int number) {
  COVE_CHECK(check_orders());
  link()->signal(number_, number);
  sandbox_->flush();
  return {};
}

Result<> Process::resize(std::uint16_t rows, std::uint16_t columns) {
  COVE_CHECK(check_orders());
  link()->resize(number_, rows, columns);
  sandbox_->flush();
  return {};
}

Result<> Process::offer_input(std::string_view bytes) {
  if (!input_open_ || end_ || link() == nullptr) return fail(Errc::conflict, "the process takes no input");
  if (input_sent_ - input_taken_ + bytes.size() > wire::kInputAhead)
    return fail(Errc::over_limit, "the process does not take its input");
  link()->input(number_, bytes);
  input_sent_ += bytes.size();
  sandbox_->flush();
  return {};
}

async::Task<Result<>> Process::write_input(std::string bytes, std::function<bool()> abandoned) {
  const auto self = shared_from_this();
  std::size_t sent = 0;
  while (true) {
    if (!input_open_ || end_ || link() == nullptr)
      co_return fail(Errc::conflict, "the process takes no input: it has ended, or its input is closed");
    while (sent < bytes.size() && input_sent_ - input_taken_ + kInputChunk <= wire::kInputAhead) {
      const auto piece = std::string_view(bytes).substr(sent, kInputChunk);
      link()->input(number_, piece);
      sent += piece.size();
      input_sent_ += piece.size();
    }
    sandbox_->flush();
    if (sent == bytes.size() && input_taken_ >= input_sent_) co_return Result<>();
    // With more to come the caller goes on filling the window; it waits here for the last of it.
    if (sent == bytes.size() && request_.delivery == Delivery::everything) co_return Result<>();
    co_await changed_.wait_until(Clock::now() + kLookAgain);
    if (abandoned && abandoned()) co_return fail(Errc::unavailable, "nobody waits for it any more");
  }
}

Result<> Process::end_input() {
  if (!input_open_ || end_ || link() == nullptr) return fail(Errc::conflict, "the process takes no input");
  if (!request_.terminal) input_open_ = false;
  link()->end_input(number_);
  sandbox_->flush();
  return {};
}

void Process::finish(ProcessEnd end) {
  if (end_) return;
  deadline_.cancel();
  grace_.cancel();
  input_open_ = false;
  end_ = std::move(end);
  push({.sequence = next_++, .kind = Event::Kind::end, .bytes = {}});
}

Reader::Reader(std::shared_ptr<Process> process, std::uint64_t from)
    : process_(std::move(process)), next_(std::max<std::uint64_t>(1, from)), progress_(Clock::now()) {
  process_->readers_.insert(this);
}

Reader::~Reader() {
  process_->readers_.erase(this);
  process_->acknowledge();
}

Reader::Batch Reader::take(std::size_t bytes) {
  Batch batch;
  const auto first = process_->first_sequence();
  if (next_ < first) {
    batch.lost = Gap{.from = next_, .to = first - 1};
    next_ = first;
  }
  auto& events = process_->events_;
  const bool everything = process_->request_.delivery == Delivery::everything;
  std::size_t taken = 0;
  auto event = std::lower_bound(events.begin(), events.end(), next_,
                                [](const Event& e, std::uint64_t sequence) { return e.sequence < sequence; });
  for (; event != events.end() && taken < bytes; ++event) {
    taken += event->bytes.size() + 1;
    next_ = event->sequence + 1;
    if (everything) {
      process_->held_ -= event->bytes.size();
      batch.events.push_back(std::move(*event));
    } else {
      batch.events.push_back(*event);
    }
  }
  // With one reader who must have everything, what was read is needed no more.
  if (everything) events.erase(events.begin(), event);
  batch.over = process_->end_.has_value() && next_ > process_->last_sequence();
  if (taken > 0) {
    progress_ = Clock::now();
    process_->acknowledge();
  }
  return batch;
}

async::Task<> feed(std::shared_ptr<Process> process, std::string input) {
  if (co_await process->write_input(std::move(input))) [[maybe_unused]]
    const auto ended = process->end_input();
}

}  // namespace cove::sandbox
