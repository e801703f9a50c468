#include <array>
#include <charconv>

#include "base/clock.hpp"
#include "doors/sandboxes/answers.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kPage = 500;

json::object event_json(const store::EventRow& row) {
  json::object object{{"seq", row.seq},
                      {"type", row.type},
                      {"sandbox", row.sandbox},
                      {"podName", row.pod_name},
                      {"at", iso_time(row.at_unix_ms)}};
  boost::system::error_code failed;
  auto data = json::parse(row.data_json, failed);
  if (!failed && data.is_object()) {
    for (auto& [key, value] : data.as_object()) object[key] = value;
  }
  return object;
}

// The gap between the last event that a reader has seen, `after`, and the first one still kept.
json::object gap_after(std::int64_t after, std::int64_t lost) {
  return {{"type", "gap"}, {"from", after + 1}, {"to", lost}};
}

// Streams events that follow `after`.
Task<> follow_events(Services& services, http::Exchange& exchange, std::int64_t after) {
  const auto tenant = exchange.request().principal.tenant;
  auto& table = services.registry.store().events();
  const auto changed = services.registry.events_of(tenant);
  // Sent at once: from here on the client misses nothing.
  auto text = http::sse_comment();
  auto spoke = Clock::now();
  bool looked = false;
  while (!exchange.client_gone() && !services.draining()) {
    // The database is read only when there are new events.
    if (!looked || table.last_of(tenant).value_or(after + 1) > after) {
      looked = true;
      const auto lost = table.lost_through(tenant).value_or(0);
      if (lost > after) {
        text += http::sse_event(std::nullopt, "gap", json::serialize(gap_after(after, lost)));
        after = lost;
      }
      const auto rows = table.after(tenant, after, kPage);
      for (const auto& row : rows ? *rows : std::vector<store::EventRow>()) {
        text += http::sse_event(static_cast<std::uint64_t>(row.seq), row.type, json::serialize(event_json(row)));
        after = row.seq;
      }
    }
    if (text.empty() && Clock::now() - spoke > std::chrono::seconds(15)) text = http::sse_comment();
    if (!text.empty()) {
      if (!co_await exchange.write(text)) co_return;
      text.clear();
      spoke = Clock::now();
      continue;
    }
    co_await changed->wait_until(Clock::now() + std::chrono::milliseconds(500));
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

Task<Answer> get_events(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto tenant = request.principal.tenant;
  auto& table = services.registry.store().events();
  COVE_CO_TRY(const auto from, number_query(request, "from"));
  // `from` is the first event to return.
  auto after = static_cast<std::int64_t>(std::min<std::uint64_t>(from.value_or(1), INT64_MAX)) - 1;
  if (!wants_event_stream(request)) {
    COVE_CO_TRY(const auto lost, table.lost_through(tenant));
    COVE_CO_TRY(const auto rows, table.after(tenant, after, kPage));
    json::array events;
    for (const auto& row : rows) events.push_back(event_json(row));
    const auto next = rows.empty() ? std::max(after, lost) + 1 : rows.back().seq + 1;
    json::object answer{{"events", std::move(events)}, {"next", next}, {"firstSeq", lost + 1}};
    if (lost > after) answer["gap"] = gap_after(after, lost);
    co_return http::json_response(200, std::move(answer));
  }
  const auto header = request.header("Last-Event-ID");
  std::int64_t last = 0;
  const bool resumed = std::from_chars(header.data(), header.data() + header.size(), last).ec == std::errc();
  if (resumed) after = last;
  // Without a position the stream starts now.
  if (!resumed && !from) after = table.last_seq().value_or(0);
  auto head = event_stream();
  if (!co_await exchange.start(std::move(head))) co_return std::nullopt;
  co_await follow_events(services, exchange, after);
  co_return std::nullopt;
}

constexpr auto kEventRoutes = std::to_array<Route>({
    {verb::get, "/v1/events", answered<get_events>},
});

}  // namespace

Routes event_routes() {
  return kEventRoutes;
}

}  // namespace cove::doors::sandboxes
