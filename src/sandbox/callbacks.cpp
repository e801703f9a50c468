#include "sandbox/callbacks.hpp"

#include <algorithm>

#include "async/deadline.hpp"
#include "base/clock.hpp"
#include "base/sha256.hpp"

namespace cove::sandbox {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kAtOnce = 16;
constexpr std::ptrdiff_t kAtOnceOfTenant = 4;
constexpr std::uint32_t kLookedAt = 256;
constexpr milliseconds kSoon{100};  // what is being tried is due until it was
constexpr milliseconds kMostBackoff{3'600'000};
constexpr std::chrono::seconds kLookAgain{60};
constexpr std::uint64_t kMostAnswer = 64U << 10;  // of which nothing is read but the status
constexpr auto kLarge =
    std::to_array<std::string_view>({"outputs", "stdout", "stderr", "returnValue", "code", "artifacts"});

milliseconds backoff_after(std::uint32_t failures, milliseconds first) {
  auto wait = first;
  for (std::uint32_t n = 1; n < failures && wait < kMostBackoff; ++n) wait *= 2;
  return std::min(wait, kMostBackoff);
}

}  // namespace

Callbacks::Callbacks(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store,
                     outbound::Client& client, std::function<Options()> options, Log log)
    : tasks_(tasks),
      store_(store),
      client_(client),
      options_(std::move(options)),
      log_(std::move(log)),
      changed_(std::move(executor)) {}

Result<> Callbacks::check(std::string_view text) const {
  COVE_TRY(const auto url, outbound::parse_url(text));
  boost::system::error_code is_name;
  const auto literal = boost::asio::ip::make_address(url.host, is_name);
  if (!is_name && outbound::dialable(url, options_().reach, {literal}).empty())
    return fail(Errc::invalid, fmt::format("{} is no public address, and is not allowed here", url.authority()));
  return {};
}

void Callbacks::add(const store::ExecutionRow& about, json::object body) {
  auto text = json::serialize(body);
  json::array omitted;
  for (const auto name : kLarge) {
    if (text.size() <= options_().max_size_bytes) break;
    if (body.erase(name) == 0) continue;
    omitted.emplace_back(name);
    body["omitted"] = omitted;
    text = json::serialize(body);
  }
  const store::CallbackRow row{.id = about.id,
                               .tenant = about.tenant,
                               .url = about.callback_url,
                               .secret = about.callback_secret,
                               .body = std::move(text),
                               .next_unix_ms = unix_millis()};
  if (const auto written = store_.callbacks().insert(row); !written)
    log_(fmt::format("callback lost execution={} reason=\"{}\"", about.id, written.error().message));
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

async::Task<> Callbacks::attempt(store::CallbackRow row) {
  const auto options = options_();
  outbound::Request request{.method = "POST", .reach = options.reach, .until = Clock::now() + options.timeout};
  request.max_body_bytes = kMostAnswer;
  const auto timestamp = std::to_string(unix_millis() / 1000);
  request.headers = {{"Content-Type", "application/json"},
                     {"X-Cove-Event", "execution.ended"},
                     {"X-Cove-Delivery", row.id},
                     {"X-Cove-Attempt", std::to_string(row.attempts + 1)},
                     {"X-Cove-Timestamp", timestamp}};
  if (!row.secret.empty())
    request.headers.emplace_back("X-Cove-Signature",
                                 "sha256=" + hmac_sha256_hex(row.secret, timestamp + "." + row.body));
  request.body = row.body;
  Result<outbound::Response> answer = fail(Errc::invalid, "the address cannot be read");
  if (auto url = outbound::parse_url(row.url)) {
    request.url = std::move(*url);
    answer = co_await client_.send(std::move(request));
    // A long answer to a callback was an answer.
    if (!answer && answer.error().code == Errc::over_limit)
      answer = fail(Errc::unavailable, "its answer is longer than 64 KiB");
  }
  judge(row, answer);
  if (const auto written = store_.callbacks().update(row); !written)
    log_(fmt::format("callback not noted execution={} reason=\"{}\"", row.id, written.error().message));
  under_way_.erase(row.id);
  changed_.notify_all();
}

// A receiver that hangs holds up its own tenant only.
bool Callbacks::has_room(const std::string& tenant) const {
  const auto of_tenant = std::ranges::count_if(under_way_, [&](const auto& entry) { return entry.second == tenant; });
  return under_way_.size() < kAtOnce && of_tenant < kAtOnceOfTenant;
}

async::Task<> Callbacks::deliver() {
  while (true) {
    [[maybe_unused]] const auto swept = store_.callbacks().sweep();
    const auto due = store_.callbacks().due(unix_millis(), kLookedAt);
    if (!due) log_(fmt::format("callbacks cannot be read reason=\"{}\"", due.error().message));
    for (const auto& row : due ? *due : std::vector<store::CallbackRow>()) {
      if (!has_room(row.tenant) || !under_way_.emplace(row.id, row.tenant).second) continue;
      tasks_.spawn("deliver a callback", attempt(row));
    }
    const auto next = store_.callbacks().next_time();
    auto wait = milliseconds(kLookAgain);
    if (next && *next) wait = std::min(wait, std::max(milliseconds(**next - unix_millis()), kSoon));
    co_await changed_.wait_until(Clock::now() + wait);
  }
}

}  // namespace cove::sandbox
