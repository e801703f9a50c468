#include <array>
#include <charconv>
#include <map>
#include <set>

#include "base/random_name.hpp"
#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/notes.hpp"
#include "doors/sandboxes/requested_settings.hpp"
#include "replay/replay.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kUsualPage = 100;
constexpr std::uint64_t kLargestPage = 1000;
constexpr std::chrono::milliseconds kLook{500};
constexpr std::chrono::seconds kSilence{15};

// What of the journal is asked for. A sandbox may have ended: the last one of its name counts.
Result<store::ActivityQuery> parse_activity(Services& services, const http::Request& request) {
  store::ActivityQuery query{.tenant = request.principal.tenant, .limit = kUsualPage};
  if (!request.param("id").empty()) {
    COVE_TRY(const auto name, sandbox_name(request));
    COVE_TRY(query.sandbox, services.registry.journal().last_sandbox(query.tenant, name));
  }
  query.kind = request.query("kind").value_or("");
  if (!query.kind.empty() && !journal::is_kind(query.kind))
    return fail(Errc::invalid, fmt::format("kind must be one of {}", journal::kinds()));
  COVE_TRY(const auto from, number_query(request, "from"));
  query.from = static_cast<std::int64_t>(std::min<std::uint64_t>(from.value_or(1), INT64_MAX));
  COVE_TRY(const auto limit, number_query(request, "limit"));
  if (limit && (*limit == 0 || *limit > kLargestPage))
    return fail(Errc::invalid, fmt::format("limit must be between 1 and {}", kLargestPage));
  query.limit = static_cast<std::uint32_t>(limit.value_or(kUsualPage));
  return query;
}

json::object gap(std::int64_t from, std::int64_t lost) {
  return {{"type", "gap"}, {"from", from}, {"to", lost}};
}

// Acts as they begin, and again when they end.
Task<> follow_acts(Services& services, http::Exchange& exchange, store::ActivityQuery query) {
  auto& journal = services.registry.journal();
  const auto changed = journal.changes_of(query.tenant);
  std::set<std::int64_t> going_on;
  auto text = http::sse_comment();
  auto spoke = Clock::now();
  while (!exchange.client_gone() && !services.draining()) {
    if (const auto lost = journal.lost_through(query.tenant).value_or(0); lost >= query.from) {
      text += http::sse_event(std::nullopt, "gap", json::serialize(gap(query.from, lost)));
      query.from = lost + 1;
    }
    // Those that have ended since they were told of.
    auto ended = query;
    if (!going_on.empty()) {
      ended.from = *going_on.begin();
      ended.limit = static_cast<std::uint32_t>(kLargestPage);
    }
    const auto rows = journal.read(ended);
    for (const auto& row : rows ? *rows : std::vector<store::ActivityRow>()) {
      const bool told = row.seq < query.from;
      if (told && (!row.duration_ms || going_on.erase(row.seq) == 0)) continue;
      if (!row.duration_ms) going_on.insert(row.seq);
      query.from = std::max(query.from, row.seq + 1);
      text += http::sse_event(static_cast<std::uint64_t>(row.seq), told ? "ended" : "act",
                              json::serialize(journal::to_json(row)));
    }
    if (text.empty() && Clock::now() - spoke > kSilence) text = http::sse_comment();
    if (!text.empty()) {
      if (!co_await exchange.write(text)) co_return;
      text.clear();
      spoke = Clock::now();
      continue;
    }
    co_await changed->wait_until(Clock::now() + kLook);
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

// Every act that is kept, one JSON object in a line.
Task<Answer> export_acts(Services& services, http::Exchange& exchange, store::ActivityQuery query) {
  http::Response head{.status = 200, .content_type = "application/x-ndjson"};
  if (!co_await exchange.start(std::move(head))) co_return std::nullopt;
  query.limit = static_cast<std::uint32_t>(kLargestPage);
  while (true) {
    const auto rows = services.registry.journal().read(query);
    if (!rows || rows->empty()) break;
    std::string text;
    for (const auto& row : *rows) text += json::serialize(journal::to_json(row)) + "\n";
    query.from = rows->back().seq + 1;
    if (!co_await exchange.write(text)) co_return std::nullopt;
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

Task<Answer> get_activity(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(auto query, parse_activity(services, request));
  const auto format = request.query("format").value_or("json");
  if (format != "json" && format != "jsonl") co_return fail(Errc::invalid, "format must be json or jsonl");
  if (format == "jsonl") co_return co_await export_acts(services, exchange, std::move(query));
  if (!wants_event_stream(request)) {
    COVE_CO_TRY(const auto lost, services.registry.journal().lost_through(query.tenant));
    COVE_CO_TRY(const auto rows, services.registry.journal().read(query));
    json::array acts;
    for (const auto& row : rows) acts.push_back(journal::to_json(row));
    const auto next = rows.empty() ? std::max(query.from, lost + 1) : rows.back().seq + 1;
    json::object answer{{"activity", std::move(acts)}, {"next", next}, {"firstSeq", lost + 1}};
    if (lost >= query.from) answer["gap"] = gap(query.from, lost);
    co_return http::json_response(200, std::move(answer));
  }
  const auto header = request.header("Last-Event-ID");
  std::int64_t last = 0;
  const bool resumed = std::from_chars(header.data(), header.data() + header.size(), last).ec == std::errc();
  if (resumed) query.from = last + 1;
  // Without a position the stream starts now.
  if (!resumed && !request.query("from")) query.from = services.registry.journal().last_seq() + 1;
  auto head = event_stream();
  if (!co_await exchange.start(std::move(head))) co_return std::nullopt;
  co_await follow_acts(services, exchange, std::move(query));
  co_return std::nullopt;
}

constexpr auto kReplayFields = std::to_array<std::string_view>({"until", "name", "ttlSeconds"});

Result<replay::Wish> parse_replay(Services& services, const http::Request& request, const json::object& body) {
  replay::Wish wish;
  COVE_TRY(const auto name, sandbox_name(request));
  COVE_TRY(wish.sandbox, services.registry.journal().last_sandbox(request.principal.tenant, name));
  COVE_TRY(const auto until, number_field(body, "until"));
  if (until && !(*until >= 1 && *until < 9e15)) return fail(Errc::invalid, "until must be the number of an act");
  if (until) wish.until = static_cast<std::int64_t>(*until);
  COVE_TRY(const auto fresh, text_field(body, "name"));
  wish.name = fresh && !fresh->empty() ? *fresh : random_name("replay-");
  COVE_CHECK(sandbox::checked_name(wish.name));
  const auto config = services.config();
  COVE_TRY(const auto ttl, requested_ttl(body, config->sandbox));
  wish.ttl = ttl.value_or(config->sandbox.ttl);
  return wish;
}

json::object to_json(const replay::Step& step) {
  json::object object{{"seq", step.act.seq},
                      {"kind", step.act.kind},
                      {"summary", step.act.summary},
                      {"state", replay::name_of(step.state)},
                      {"before", step.act.outcome},
                      {"outcome", step.outcome},
                      {"differences", json::value_from(step.differences)}};
  if (!step.why.empty()) object["why"] = step.why;
  return object;
}

// A line for the fresh sandbox, one for each act when it has been done again, and one with the counts.
Task<Answer> post_replay(Services& services, http::Exchange& exchange) {
  COVE_CO_CHECK(check_serving(services));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange, kReplayFields));
  COVE_CO_TRY(auto wish, parse_replay(services, exchange.request(), body));
  COVE_CO_TRY(const auto again, co_await replay::Replay::begin(services, services.installs, caller_of(exchange), wish));
  http::Response head{.status = 200, .content_type = "application/x-ndjson"};
  if (!co_await exchange.start(std::move(head))) co_return std::nullopt;
  const json::object begin{{"sandbox", again->sandbox()->name()}, {"acts", again->steps()}};
  if (!co_await exchange.write(json::serialize(json::object{{"begin", begin}}) + "\n")) co_return std::nullopt;
  std::map<replay::Step::State, std::uint64_t> counts;
  while (auto step = co_await again->next()) {
    ++counts[step->state];
    if (!co_await exchange.write(json::serialize(json::object{{"step", to_json(*step)}}) + "\n"))
      co_return std::nullopt;
  }
  using State = replay::Step::State;
  const json::object end{{"sandbox", again->sandbox()->name()},
                         {"same", counts[State::same]},
                         {"different", counts[State::differs]},
                         {"skipped", counts[State::skipped]}};
  if (co_await exchange.write(json::serialize(json::object{{"end", end}}) + "\n")) [[maybe_unused]]
    const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

constexpr auto kActivityRoutes = std::to_array<Route>({
    {verb::get, "/v1/activity", answered<get_activity>},
    {verb::get, "/v1/sandboxes/{id}/activity", answered<get_activity>},
    {verb::post, "/v1/sandboxes/{id}/replay", answered<post_replay>},
});

}  // namespace

Routes activity_routes() {
  return kActivityRoutes;
}

}  // namespace cove::doors::sandboxes
