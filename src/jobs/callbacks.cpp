#include "jobs/callbacks.hpp"

#include <algorithm>

#include "async/deadline.hpp"
#include "base/clock.hpp"
#include "base/sha256.hpp"
#include "base/units.hpp"

namespace cove::jobs {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr milliseconds kMaxBackoff{3'600'000};
constexpr std::chrono::seconds kLookAgain{60};   // should the wall clock have been set
constexpr std::chrono::seconds kTidy{60};        // between two sweeps of the table
constexpr std::uint64_t kMaxAnswer = 64U << 10;  // of which nothing is read but the status
constexpr std::uint64_t kShort = 4U << 10;       // a body when there is no room for large ones
constexpr auto kLarge = std::to_array<std::string_view>(
    {"outputs", "stdout", "stderr", "returnValue", "code", "artifacts", "args", "error"});

milliseconds backoff_after(std::uint32_t failures, milliseconds first) {
  auto wait = first;
  for (std::uint32_t n = 1; n < failures && wait < kMaxBackoff; ++n) wait *= 2;
  return std::min(wait, kMaxBackoff);
}

}  // namespace

// A place among those that are being sent, until the attempt is over, however it ends.
class Callbacks::Attempt {
 public:
  Attempt(Callbacks& callbacks, std::string id) : callbacks_(callbacks), alive_(callbacks.alive_), id_(std::move(id)) {}
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    if (alive_.expired()) return;
    callbacks_.sending_.erase(id_);
    const auto found = callbacks_.pending_.find(id_);
    if (found != callbacks_.pending_.end()) {
      auto& queue = callbacks_.queues_[found->second.tenant];
      --queue.sending;
      queue.waiting.emplace(found->second.next_unix_ms, id_);
    }
    if (over_) callbacks_.forget(id_);
    callbacks_.changed_.notify_all();
  }
  void postpone(std::uint32_t attempts, std::int64_t next_unix_ms) {
    auto& pending = callbacks_.pending_.at(id_);
    pending.attempts = attempts;
    pending.next_unix_ms = next_unix_ms;
  }
  void finish() { over_ = true; }

 private:
  Callbacks& callbacks_;
  std::weak_ptr<bool> alive_;
  std::string id_;
  bool over_ = false;
};

Callbacks::Callbacks(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store,
                     outbound::Client& client, std::function<Options()> options, Log log)
    : tasks_(tasks),
      store_(store),
      client_(client),
      options_(std::move(options)),
      log_(std::move(log)),
      changed_(std::move(executor)) {}

Result<> Callbacks::remember() {
  COVE_TRY(const auto rows, store_.callbacks().pending());
  for (const auto& row : rows) enqueue(row);
  return {};
}

Result<> Callbacks::check(std::string_view text) const {
  COVE_TRY(const auto url, outbound::parse_url(text));
  boost::system::error_code is_name;
  const auto literal = boost::asio::ip::make_address(url.host, is_name);
  if (!is_name && outbound::dialable(url, options_().reach, {literal}).empty())
    return fail(Errc::invalid,
                fmt::format("{} is not a public address, and callbacks.allow does not list it", url.authority()));
  return {};
}

Result<> Callbacks::admit(const std::string& tenant, Unfinished unfinished) {
  const auto bounds = options_().pending;
  const auto own = usage_.passed(tenant, {.count = unfinished.of_tenant + 1, .bytes = 1}, {.tenant = bounds.tenant});
  const auto all = usage_.passed(tenant, {.count = unfinished.of_all + 1, .bytes = 1}, {.all = bounds.all});
  if (own == Bound::none && all == Bound::none) return {};
  ++counters_.refused;
  const auto sentence = [](std::string_view whose, Bound bound, std::uint64_t count, std::uint64_t bytes) {
    const bool by_count = bound == Bound::tenant_count || bound == Bound::all_count;
    const std::string_view scope = whose == "this tenant" ? "tenant" : "max";
    if (by_count)
      return fmt::format("{} callbacks of {} are pending, which is the limit (callbacks.{}_pending)", count, whose,
                         scope);
    return fmt::format("pending callbacks of {} take {}, which is the limit (callbacks.{}_pending_size)", whose,
                       format_size(bytes), scope);
  };
  if (own != Bound::none)
    return fail_until(until_one_is_over(tenant), Errc::quota,
                      sentence("this tenant", own, bounds.tenant.count, bounds.tenant.bytes));
  return fail_until(until_one_is_over(""), Errc::unavailable,
                    sentence("all tenants", all, bounds.all.count, bounds.all.bytes));
}

milliseconds Callbacks::longest_rest(const std::string& id, const Options& options) const {
  const auto& pending = pending_.at(id);
  const auto sent = sending_.find(id);
  auto rest = sent != sending_.end()
                  ? std::chrono::ceil<milliseconds>(std::max(sent->second - Clock::now(), Clock::duration(0)))
                  : std::max(milliseconds(pending.next_unix_ms - unix_millis()), milliseconds(0)) + options.timeout;
  for (auto failures = pending.attempts + 1; failures < options.attempts; ++failures)
    rest += backoff_after(failures, options.backoff) + options.timeout;
  return rest;
}

// Those being sent end first; only where there is none the first in line is looked at.
milliseconds Callbacks::until_one_is_over(const std::string& tenant) const {
  const auto options = options_();
  std::optional<milliseconds> least;
  const auto consider = [&](const std::string& id) {
    const auto rest = longest_rest(id, options);
    least = std::min(least.value_or(rest), rest);
  };
  for (const auto& [id, until] : sending_) {
    if (tenant.empty() || pending_.at(id).tenant == tenant) consider(id);
  }
  for (auto queue = queues_.begin(); !least && queue != queues_.end(); ++queue) {
    if ((tenant.empty() || queue->first == tenant) && !queue->second.waiting.empty())
      consider(queue->second.waiting.begin()->second);
  }
  return least.value_or(milliseconds(0));
}

void Callbacks::enqueue(const store::CallbackRow& row) {
  const auto [entry, added] = pending_.emplace(row.id, Pending{.tenant = row.tenant,
                                                               .size_bytes = row.size_bytes,
                                                               .attempts = row.attempts,
                                                               .next_unix_ms = row.next_unix_ms});
  if (!added) return;
  usage_.charge(row.tenant, {.count = 1, .bytes = row.size_bytes});
  queues_[row.tenant].waiting.emplace(row.next_unix_ms, row.id);
}

void Callbacks::forget(const std::string& id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  const auto& pending = found->second;
  usage_.release(pending.tenant, {.count = 1, .bytes = pending.size_bytes});
  const auto queue = queues_.find(pending.tenant);
  queue->second.waiting.erase({pending.next_unix_ms, id});
  if (queue->second.waiting.empty() && queue->second.sending == 0) queues_.erase(queue);
  pending_.erase(found);
}

void Callbacks::add(const store::ExecutionRow& about, json::object body) {
  const auto options = options_();
  auto text = json::serialize(body);
  auto limit = options.max_size_bytes;
  if (usage_.passed(about.tenant, {.count = 0, .bytes = text.size()}, options.pending) != Bound::none) {
    limit = std::min(limit, kShort);
    ++counters_.shortened;
  }
  json::array omitted;
  for (const auto name : kLarge) {
    if (text.size() <= limit) break;
    if (body.erase(name) == 0) continue;
    omitted.emplace_back(name);
    body["omitted"] = omitted;
    text = json::serialize(body);
  }
  const store::CallbackRow row{.id = about.id,
                               .tenant = about.tenant,
                               .url = about.callback_url,
                               .secret = about.callback_secret,
                               .next_unix_ms = unix_millis(),
                               .size_bytes = text.size()};
  if (const auto written = store_.callbacks().insert(row, text); !written)
    return log_(fmt::format("callback lost execution={} reason=\"{}\"", about.id, written.error().message));
  enqueue(row);
  changed_.notify_all();
}

void Callbacks::judge(store::CallbackRow& row, const Result<outbound::Response>& answer) const {
  const auto options = options_();
  ++row.attempts;
  row.last_status = answer ? static_cast<std::int32_t>(answer->head.status) : 0;
  row.last_error.clear();
  if (answer && answer->head.status >= 200 && answer->head.status < 300) {
    row.state = "delivered";
    return;
  }
  row.last_error = answer ? fmt::format("answered {}", answer->head.status) : answer.error().message;
  if (answer && answer->head.status >= 300 && answer->head.status < 400)
    row.last_error += ", and redirects are not followed";
  // An address that may not be called will not be allowed by trying again.
  const bool refused = !answer && (answer.error().code == Errc::denied || answer.error().code == Errc::invalid);
  if (refused || row.attempts >= options.attempts) {
    row.state = "failed";
    return;
  }
  row.next_unix_ms = unix_millis() + backoff_after(row.attempts, options.backoff).count();
}

async::Task<> Callbacks::attempt(std::string id) {
  Attempt place(*this, id);
  const auto options = options_();
  auto found = store_.callbacks().find(id);
  auto body = store_.callbacks().body(id);
  ++counters_.bodies_read;
  if (!found || !body) {
    log_(fmt::format("callback cannot be read execution={} reason=\"{}\"", id,
                     (found ? body.error() : found.error()).message));
    co_return place.postpone(pending_.at(id).attempts, unix_millis() + milliseconds(kLookAgain).count());
  }
  if (!*found || !*body) co_return place.finish();
  auto& row = **found;
  outbound::Request request{.method = "POST", .reach = options.reach, .tenant = row.tenant, .until = sending_.at(id)};
  request.max_body_bytes = kMaxAnswer;
  const auto timestamp = std::to_string(unix_millis() / 1000);
  request.headers = {{"Content-Type", "application/json"},
                     {"X-Cove-Event", "execution.ended"},
                     {"X-Cove-Delivery", row.id},
                     {"X-Cove-Attempt", std::to_string(row.attempts + 1)},
                     {"X-Cove-Timestamp", timestamp}};
  const auto secret = store_.secrets().open(row.id, row.secret);
  if (secret && !secret->empty())
    request.headers.emplace_back("X-Cove-Signature", "sha256=" + hmac_sha256_hex(*secret, timestamp + "." + **body));
  request.body = std::move(**body);
  body = std::optional<std::string>();
  ++counters_.attempts;
  Result<outbound::Response> answer = fail(Errc::invalid, "the URL is malformed");
  if (!secret) {
    answer = tl::unexpected<Error>(secret.error());  // never without the signature that was asked for
  } else if (auto url = outbound::parse_url(row.url)) {
    request.url = std::move(*url);
    answer = co_await client_.send(std::move(request));
    // A long answer to a callback was an answer.
    if (!answer && answer.error().code == Errc::over_limit)
      answer = fail(Errc::unavailable, "the answer is longer than 64 KiB");
  }
  judge(row, answer);
  if (const auto written = store_.callbacks().update(row); !written)
    log_(fmt::format("callback not stored execution={} reason=\"{}\"", row.id, written.error().message));
  if (row.state == "pending") co_return place.postpone(row.attempts, row.next_unix_ms);
  ++(row.state == "delivered" ? counters_.delivered : counters_.failed);
  place.finish();
}

std::map<std::string, Callbacks::Queue>::iterator Callbacks::next_tenant(std::int64_t now_unix_ms,
                                                                         const Options& options) {
  auto best = queues_.end();
  auto queue = queues_.upper_bound(last_tenant_);
  for (std::size_t n = 0; n < queues_.size(); ++n, ++queue) {
    if (queue == queues_.end()) queue = queues_.begin();
    const auto& [tenant, line] = *queue;
    if (line.sending >= options.tenant_concurrent || line.waiting.empty() || line.waiting.begin()->first > now_unix_ms)
      continue;
    // Whoever has the fewest on their way comes first: a free place goes to a tenant that has none.
    if (best == queues_.end() || line.sending < best->second.sending) best = queue;
  }
  return best;
}

void Callbacks::start_due() {
  const auto options = options_();
  while (sending_.size() < options.max_concurrent) {
    const auto tenant = next_tenant(unix_millis(), options);
    if (tenant == queues_.end()) return;
    last_tenant_ = tenant->first;
    auto& [name, queue] = *tenant;
    auto id = queue.waiting.begin()->second;
    queue.waiting.erase(queue.waiting.begin());
    ++queue.sending;
    sending_[id] = Clock::now() + options.timeout;
    tasks_.spawn("deliver a callback", attempt(std::move(id)));
  }
}

// One that may not be sent now is no reason to wake up: the end of another is.
std::optional<std::int64_t> Callbacks::next_time(const Options& options) const {
  std::optional<std::int64_t> next;
  if (sending_.size() >= options.max_concurrent) return next;
  for (const auto& [tenant, queue] : queues_) {
    if (queue.sending >= options.tenant_concurrent || queue.waiting.empty()) continue;
    const auto first = queue.waiting.begin()->first;
    next = std::min(next.value_or(first), first);
  }
  return next;
}

async::Task<> Callbacks::deliver() {
  while (true) {
    start_due();
    auto wait = milliseconds(kLookAgain);
    if (const auto next = next_time(options_()))
      wait = std::clamp(milliseconds(*next - unix_millis()), milliseconds(1), wait);
    co_await changed_.wait_until(Clock::now() + wait);
  }
}

async::Task<> Callbacks::tidy() {
  while (true) {
    std::string after;
    while (true) {
      const auto next = store_.callbacks().sweep(after);
      if (!next) log_(fmt::format("callbacks cannot be swept reason=\"{}\"", next.error().message));
      if (!next || !*next) break;
      after = **next;
      co_await async::sleep_for(milliseconds(1));  // others first
    }
    co_await async::sleep_for(kTidy);
  }
}

}  // namespace cove::jobs
