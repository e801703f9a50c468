#include "sandbox/process.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "guest/channel.hpp"
#include "sandbox/poll_interval.hpp"
#include "sandbox/process_table.hpp"
#include "sandbox/reader.hpp"

namespace cove::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kLag = 256U << 10;      // bytes a reader may be behind before the producer waits for it
constexpr std::chrono::seconds kStalled{10};  // a reader that took nothing for this long is not waited for
constexpr std::size_t kInputChunk = 64U << 10;
constexpr std::size_t kMaxEvents = 65536;
constexpr std::size_t kCommandsAhead = 256U << 10;  // bytes that may wait for an init that does not read

Event::Kind kind_of(wire::Stream stream) {
  return stream == wire::Stream::out   ? Event::Kind::out
         : stream == wire::Stream::err ? Event::Kind::err
                                       : Event::Kind::channel;
}

milliseconds since(Clock::time_point then) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - then);
}

}  // namespace

Process::Process(boost::asio::any_io_executor executor, ProcessTable& table, std::uint32_t number,
                 ProcessRequest request)
    : table_(&table),
      number_(number),
      request_(std::move(request)),
      changed_(executor),
      deadline_(executor),
      grace_(executor),
      started_unix_ms_(unix_millis()),
      started_at_(Clock::now()) {
  input_open_ = request_.input == InputMode::open;
  name_entry();
}

void Process::name_entry() const {
  if (request_.entry) request_.entry->set_reference(fmt::format("process {}", number_));
}

guest::InitLink* Process::link() const {
  return table_ == nullptr ? nullptr : table_->session().link();
}

void Process::flush() const {
  if (table_ != nullptr) table_->session().flush();
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
  if (table_ != nullptr && shares_memory()) table_->hold(event.bytes.size());
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
  if (table_ != nullptr && !request_.whole) table_->let_go(size);
  events_.pop_front();
}

void Process::receive(const wire::Frame& frame) {
  switch (frame.type) {
    case wire::FrameType::started:
      on_started();
      break;
    case wire::FrameType::spawn_failed:
      if (const auto failure = wire::decode_spawn_failed(frame.payload)) {
        phase_ = Phase::failed;
        failure_ = failure;
        changed_.notify_all();
      }
      break;
    case wire::FrameType::output:
      if (const auto output = wire::decode_output(frame.payload)) on_output(*output);
      break;
    case wire::FrameType::input_room:
      if (const auto taken = wire::decode_number(frame.payload)) {
        input_taken_ = *taken;
        input_sent_ = std::max(input_sent_, *taken);
        changed_.notify_all();
      }
      break;
    case wire::FrameType::channel_room:
      if (const auto taken = wire::decode_number(frame.payload)) {
        channel_taken_ = *taken;
        send_channel_records();
      }
      break;
    case wire::FrameType::flood:
      stop(Reason::output_limit);
      break;
    case wire::FrameType::exited:
      exited_ = wire::decode_exited(frame.payload);
      break;
    default:
      break;
  }
}

void Process::on_started() {
  if (phase_ != Phase::starting) return;
  phase_ = Phase::running;
  started_at_ = Clock::now();
  started_unix_ms_ = unix_millis();
  next_ = wire::kFirstOutput;
  push({.sequence = 1, .kind = Event::Kind::started, .bytes = {}});
  if (request_.timeout) arm(*request_.timeout);
}

void Process::on_inherited(const wire::Known& known) {
  phase_ = Phase::running;
  input_taken_ = input_sent_ = known.input_received;
  channel_taken_ = channel_sent_ = known.channel_received;
  next_ = known.first_sequence;
  if (known.first_sequence == wire::kFirstOutput) push({.sequence = 1, .kind = Event::Kind::started, .bytes = {}});
  send_channel_records();
  if (link() != nullptr) link()->replay(number_, known.first_sequence);
}

void Process::on_reconnected(const wire::Known& known) {
  if (link() == nullptr) return;
  // These may have been sent over the connection that broke.
  if (known.state != wire::ProcessState::starting) on_started();
  acknowledged_ = {};
  link()->replay(number_, next_);
  acknowledge();
  const bool input_lost = !input_open_ && request_.input == InputMode::open && input_taken_ < input_sent_;
  if (input_lost || channel_sent_ != known.channel_received) stop(Reason::cancelled);
}

// Input that was on its way may be lost: what follows it would be wrong, so nothing may.
void Process::on_disconnected() {
  if (input_open_ && input_taken_ < input_sent_) input_open_ = false;
}

void Process::assign(ProcessRequest request) {
  request_ = std::move(request);
  request_.variables.clear();
  request_.files.clear();
  request_.abandoned = {};
  input_open_ = request_.input == InputMode::open;
  started_at_ = Clock::now();
  started_unix_ms_ = unix_millis();
  rebase_counters();
  name_entry();
}

void Process::restore(const store::ProcessRow& row) {
  started_unix_ms_ = row.started_unix_ms;
  started_at_ = Clock::now() - milliseconds(unix_millis() - row.started_unix_ms);
  if (!row.end) return;
  stored_end_ = ProcessEnd{.reason = guest::reason_of(row.end->reason),
                           .exit_status = row.end->exit_code.value_or(0),
                           .signal = row.end->signal.value_or(0),
                           .wall = milliseconds(row.end->duration_ms),
                           .cpu = milliseconds(row.end->cpu_ms),
                           .out_bytes = row.end->stdout_bytes,
                           .err_bytes = row.end->stderr_bytes};
  input_open_ = false;
}

void Process::rebase_counters() {
  if (table_ != nullptr) counters_before_ = table_->counters();
}

std::uint64_t Process::oom_kills() const {
  if (table_ == nullptr) return 0;
  const auto now = table_->counters().oom_kills;
  return now - std::min(now, counters_before_.oom_kills);
}

guest::RunLimits Process::limits() const {
  return table_ == nullptr ? guest::RunLimits{} : table_->limits();
}

void Process::on_output(const wire::Output& output) {
  const auto index = wire::index_of(output.stream);
  received_[index] = std::max(received_[index], output.offset + output.bytes.size());
  next_ = output.sequence + 1;
  if (request_.entry && output.stream != wire::Stream::channel)
    request_.entry->add_output(output.stream == wire::Stream::out ? "stdout" : "stderr", output.bytes);
  push({.sequence = output.sequence, .kind = kind_of(output.stream), .bytes = std::string(output.bytes)});
  queue_acknowledgements();  // the session sends what its frames have led to when it has read all that came
}

bool Process::producer_waits() const {
  if (request_.delivery == Delivery::everything) return held_ > kLag;
  const auto lags = [&](const Reader* reader) {
    if (Clock::now() - reader->progress() > kStalled) return false;
    std::size_t behind = 0;
    for (auto event = events_.rbegin(); event != events_.rend() && event->sequence >= reader->next(); ++event) {
      behind += event->bytes.size();
      if (behind > kLag) return true;
    }
    return false;
  };
  return std::any_of(readers_.begin(), readers_.end(), lags);
}

void Process::acknowledge() {
  queue_acknowledgements();
  flush();
}

void Process::queue_acknowledgements() {
  if (link() == nullptr || producer_waits()) return;
  for (const auto stream : wire::kStreams) {
    const auto index = wire::index_of(stream);
    if (received_[index] == acknowledged_[index]) continue;
    acknowledged_[index] = received_[index];
    link()->acknowledge(number_, stream, received_[index]);
  }
}

Result<> Process::send(std::string_view message) {
  if (end_ || table_ == nullptr) return fail(Errc::conflict, "the process has ended");
  for (auto& record : guest::records_of(message)) {
    records_bytes_ += record.size();
    records_.push_back(std::move(record));
  }
  send_channel_records();
  return {};
}

std::size_t Process::untaken_bytes() const {
  return records_bytes_ + static_cast<std::size_t>(channel_sent_ - std::min(channel_sent_, channel_taken_));
}

void Process::send_channel_records() {
  if (phase_ != Phase::running) return;  // how much of it init has is not known yet
  while (!records_.empty() && link() != nullptr &&
         channel_sent_ - std::min(channel_sent_, channel_taken_) + records_.front().size() <= wire::kChannelAhead) {
    channel_sent_ += records_.front().size();
    link()->channel_record(number_, records_.front());
    records_bytes_ -= records_.front().size();
    records_.pop_front();
  }
  flush();
}

// Commands wait in our memory until init reads them.
Result<> Process::check_commands() const {
  if (end() || link() == nullptr) return fail(Errc::conflict, "the process has ended");
  if (link()->waiting() > kCommandsAhead)
    return fail(Errc::conflict, "the sandbox does not read commands: it is paused, or gets no CPU time");
  return {};
}

Result<> Process::signal(int number) {
  COVE_CHECK(check_commands());
  link()->signal(number_, number);
  flush();
  return {};
}

Result<> Process::resize(std::uint16_t rows, std::uint16_t columns) {
  COVE_CHECK(check_commands());
  link()->resize(number_, rows, columns);
  flush();
  return {};
}

Result<> Process::offer_input(std::string_view bytes) {
  if (!input_open_ || end_ || link() == nullptr) return fail(Errc::conflict, "the process has no open input");
  if (input_sent_ - input_taken_ + bytes.size() > wire::kInputAhead)
    return fail(Errc::over_limit, "the process does not read its input");
  link()->input(number_, bytes);
  input_sent_ += bytes.size();
  flush();
  return {};
}

async::Task<Result<>> Process::write_input(std::string bytes, std::function<bool()> abandoned) {
  const auto self = shared_from_this();
  std::size_t sent = 0;
  while (true) {
    if (!input_open_ || end_ || link() == nullptr)
      co_return fail(Errc::conflict, "the process reads no input: it has ended, or its input is closed");
    while (sent < bytes.size() && input_sent_ - input_taken_ + kInputChunk <= wire::kInputAhead) {
      const auto piece = std::string_view(bytes).substr(sent, kInputChunk);
      link()->input(number_, piece);
      sent += piece.size();
      input_sent_ += piece.size();
    }
    flush();
    if (sent == bytes.size() && input_taken_ >= input_sent_) co_return Result<>();
    // With more to come the caller goes on filling the window; it waits here for the last of it.
    if (sent == bytes.size() && request_.delivery == Delivery::everything) co_return Result<>();
    co_await changed_.wait_until(Clock::now() + kPollInterval);
    if (abandoned && abandoned()) co_return fail(Errc::unavailable, "the request was abandoned");
  }
}

Result<> Process::end_input() {
  if (!input_open_ || end_ || link() == nullptr) return fail(Errc::conflict, "the process has no open input");
  if (!request_.terminal) input_open_ = false;
  link()->end_input(number_);
  flush();
  return {};
}

void Process::on_tick() {
  if (!readers_.empty()) acknowledge();
}

void Process::remove_reader(const Reader& reader) {
  readers_.erase(&reader);
  acknowledge();
}

EventBatch Process::read(std::uint64_t& next, std::size_t bytes) {
  EventBatch batch;
  const auto first = first_sequence();
  if (next < first) {
    batch.lost = EventGap{.from = next, .to = first - 1};
    next = first;
  }
  const bool everything = request_.delivery == Delivery::everything;
  std::size_t taken = 0;
  auto event = std::lower_bound(events_.begin(), events_.end(), next,
                                [](const Event& e, std::uint64_t sequence) { return e.sequence < sequence; });
  for (; event != events_.end() && taken < bytes; ++event) {
    taken += event->bytes.size() + 1;
    next = event->sequence + 1;
    if (everything) {
      held_ -= event->bytes.size();
      batch.events.push_back(std::move(*event));
    } else {
      batch.events.push_back(*event);
    }
  }
  // With one reader who must have everything, what was read is needed no more.
  if (everything) events_.erase(events_.begin(), event);
  batch.over = end_.has_value() && next > last_sequence();
  return batch;
}

async::Task<> feed(std::shared_ptr<Process> process, std::string input) {
  if (co_await process->write_input(std::move(input))) [[maybe_unused]]
    const auto ended = process->end_input();
}

}  // namespace cove::sandbox
