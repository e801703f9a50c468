#include "journal/journal.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace cove::journal {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr std::size_t kMaxWaiting = 10'000;  // acts in memory while the database cannot be written
constexpr milliseconds kTogether{5};
constexpr milliseconds kAgain{500};
constexpr std::size_t kSummaryBytes = 300;

}  // namespace

Journal::Journal(boost::asio::any_io_executor executor, store::Store& store, Log log)
    : executor_(std::move(executor)),
      timer_(executor_),
      store_(store),
      log_(std::move(log)),
      self_(std::make_shared<Journal*>(this)) {
  if (const auto last = store_.activity().last_seq()) next_ = *last + 1;
  auto unfinished = store_.activity().unfinished();
  for (auto& row : unfinished ? *unfinished : std::vector<store::ActivityRow>()) {
    const auto seq = row.seq;
    inherited_.emplace(seq, std::move(row));
  }
}

Journal::~Journal() {
  close();
}

std::shared_ptr<Entry> Journal::begin(const Subject& subject, const Actor& actor, Act act) {
  if (!settings_.enabled || !self_) return nullptr;
  const auto seq = next_++;
  Open open{.row = {.seq = seq,
                    .at_unix_ms = unix_millis(),
                    .tenant = subject.tenant,
                    .sandbox = subject.sandbox,
                    .sandbox_name = subject.name,
                    .door = actor.door,
                    .client = actor.client,
                    .key_id = actor.key_id,
                    .kind = std::string(act.kind),
                    .summary = one_line(act.summary, kSummaryBytes),
                    .reference = std::move(act.reference)},
            .detail = std::move(act.detail),
            .repeat = std::move(act.repeat),
            .content = {},
            .brief = act.brief};
  open_.emplace(seq, std::move(open));
  begun_.push_back(seq);
  changed(subject.tenant);
  write_soon();
  return std::make_shared<Entry>(self_, seq, milliseconds(0), Entry::Output::whole);
}

void Journal::record(const Subject& subject, const Actor& actor, Act act, Outcome outcome) {
  const bool at_once = act.kind == kind::kLifecycle;
  if (const auto entry = begin(subject, actor, std::move(act))) entry->end(std::move(outcome));
  if (at_once) write();
}

void Journal::set_reference(std::int64_t seq, std::string reference) {
  const auto found = open_.find(seq);
  if (found != open_.end()) found->second.row.reference = std::move(reference);
}

void Journal::add_content(std::int64_t seq, std::string_view bytes) {
  const auto found = open_.find(seq);
  if (found == open_.end() || !found->second.content_kept) return;
  auto& open = found->second;
  open.content_kept = open.content.size() + bytes.size() <= settings_.repeat_bytes;
  if (open.content_kept)
    open.content += bytes;
  else
    open.content = {};
}

void Journal::end(std::int64_t seq, milliseconds lasted, Outcome outcome) {
  auto found = open_.extract(seq);
  if (!found) return;
  auto& open = found.mapped();
  changed(open.row.tenant);
  if (!open.written) std::erase(begun_, seq);
  ended_.push_back({.open = std::move(open), .lasted = lasted, .outcome = std::move(outcome)});
  write_behind_answers();
}

// Made when it is written, behind the answers. What it takes to do it again may hold secrets of the caller's.
store::ActivityRow Journal::row_of(Open& open) {
  open.row.detail_json = json::serialize(std::exchange(open.detail, {}));
  if (!open.content.empty()) open.repeat["content"] = base64(std::exchange(open.content, {}));
  if (!open.repeat.empty() && open.content_kept) {
    const auto text = json::serialize(std::exchange(open.repeat, {}));
    // base64 in JSON of a content within the limit is within this.
    if (text.size() <= settings_.repeat_bytes * 3 / 2 + 4096) {
      if (auto kept = store_.secrets().seal(std::to_string(open.row.seq), text)) open.row.repeat = std::move(*kept);
    }
  }
  return std::exchange(open.row, {.seq = open.row.seq, .tenant = open.row.tenant});
}

void Journal::changed(const std::string& tenant) {
  const auto found = followers_.find(tenant);
  if (found == followers_.end()) return;
  if (const auto signal = found->second.lock())
    signal->notify_all();
  else
    followers_.erase(found);
}

void Journal::write_soon() {
  if (std::exchange(writing_soon_, true)) return;
  timer_.expires_after(failing_ ? kAgain : kTogether);
  timer_.async_wait([weak = std::weak_ptr(self_)](boost::system::error_code cancelled) {
    const auto self = weak.lock();
    if (self && !cancelled) (*self)->write();
  });
}

// Whoever waited for the end of an act runs in the next turn of the loop, and has sent the answer in the one after.
void Journal::write_behind_answers(int turns) {
  if (failing_) return write_soon();
  if (turns == kTurns && std::exchange(writing_next_, true)) return;
  boost::asio::post(executor_, [weak = std::weak_ptr(self_), turns] {
    const auto self = weak.lock();
    if (!self) return;
    if (turns > 1) return (*self)->write_behind_answers(turns - 1);
    (*self)->writing_next_ = false;
    (*self)->write();
  });
}

void Journal::write() {
  writing_soon_ = false;
  auto rows = std::exchange(waiting_, {});
  for (auto& [open, lasted, outcome] : std::exchange(ended_, {})) {
    auto result = json::serialize(outcome.result);
    if (open.written) {
      ends_.push_back({.seq = open.row.seq,
                       .duration_ms = lasted.count(),
                       .outcome = std::move(outcome.word),
                       .good = outcome.good,
                       .result_json = std::move(result)});
      continue;
    }
    auto row = row_of(open);
    row.duration_ms = lasted.count();
    row.outcome = std::move(outcome.word);
    row.good = outcome.good;
    row.result_json = std::move(result);
    rows.push_back(std::move(row));
  }
  std::erase_if(begun_, [&](std::int64_t seq) {
    auto& open = open_.at(seq);
    if (open.brief) return false;
    open.written = true;
    rows.push_back(row_of(open));
    return true;
  });
  if (rows.empty() && ends_.empty()) return;
  const auto written = store_.activity().write(rows, ends_);
  if (written) {
    ends_.clear();
    failing_ = false;
    return;
  }
  if (!std::exchange(failing_, true))
    log_(fmt::format("journal cannot be written, tried again until it can reason=\"{}\"", written.error().message));
  if (rows.size() + ends_.size() > kMaxWaiting) {
    dropped_ += rows.size() + ends_.size();
    ends_.clear();
    log_("journal acts lost: too many wait to be written");
    return;
  }
  waiting_ = std::move(rows);
  write_soon();
}

std::shared_ptr<Entry> Journal::resume(const std::string& sandbox, const std::string& reference) {
  if (!self_) return nullptr;
  const auto found = std::ranges::find_if(
      inherited_, [&](const auto& one) { return one.second.sandbox == sandbox && one.second.reference == reference; });
  if (found == inherited_.end()) return nullptr;
  const auto lasted = milliseconds(std::max<std::int64_t>(0, unix_millis() - found->second.at_unix_ms));
  const auto seq = found->first;
  Open open{.row = {.seq = seq, .tenant = found->second.tenant}, .repeat = {}, .content = {}, .written = true};
  open_.emplace(seq, std::move(open));
  inherited_.erase(found);
  return std::make_shared<Entry>(self_, seq, lasted, Entry::Output::partial);
}

void Journal::end_unfinished() {
  for (const auto& [seq, row] : std::exchange(inherited_, {})) {
    ends_.push_back({.seq = seq,
                     .duration_ms = std::max<std::int64_t>(0, unix_millis() - row.at_unix_ms),
                     .outcome = "lost with the server",
                     .good = false});
  }
  write_soon();
}

void Journal::close() {
  if (!self_) return;
  write();
  self_.reset();
  open_.clear();
  begun_.clear();
}

Result<std::vector<store::ActivityRow>> Journal::read(const store::ActivityQuery& query) {
  write();
  return store_.activity().read(query);
}

Result<json::object> Journal::repeat_of(std::int64_t seq) {
  write();
  COVE_TRY(const auto kept, store_.activity().repeat_of(seq));
  if (!kept) return json::object();
  COVE_TRY(const auto text, store_.secrets().open(std::to_string(seq), *kept));
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  if (failed || !value.is_object()) return fail(Errc::io, "the journal's record of this act is damaged");
  return std::move(value.as_object());
}

Result<std::string> Journal::last_sandbox(const std::string& tenant, const std::string& name) {
  write();
  COVE_TRY(auto found, store_.activity().last_sandbox(tenant, name));
  if (!found) return fail(Errc::not_found, fmt::format("sandbox not found: {}", name));
  return std::move(*found);
}

std::shared_ptr<async::Signal> Journal::changes_of(const std::string& tenant) {
  auto& known = followers_[tenant];
  auto signal = known.lock();
  if (!signal) known = signal = std::make_shared<async::Signal>(executor_);
  return signal;
}

json::object to_json(const store::ActivityRow& row) {
  const auto parsed = [](const std::string& text) {
    boost::system::error_code failed;
    auto value = json::parse(text, failed);
    return failed ? json::value(json::object()) : value;
  };
  json::object act{{"seq", row.seq},
                   {"at", iso_time(row.at_unix_ms)},
                   {"sandbox", row.sandbox_name},
                   {"door", row.door},
                   {"client", row.client},
                   {"keyId", row.key_id},
                   {"kind", row.kind},
                   {"summary", row.summary},
                   {"ref", row.reference},
                   {"detail", parsed(row.detail_json)}};
  if (row.duration_ms) {
    act["durationMs"] = *row.duration_ms;
    act["outcome"] = row.outcome;
    act["ok"] = row.good;
    act["result"] = parsed(row.result_json);
  } else {
    act["durationMs"] = nullptr;
    act["outcome"] = nullptr;
  }
  return act;
}

}  // namespace cove::journal
