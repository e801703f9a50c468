#include <charconv>

#include "base/clock.hpp"
#include "doors/sandboxes/answers.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kPage = 500;

json::object to_json(const store::EventRow& row) {
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

Task<> get_events(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto tenant = request.principal.tenant;
  auto& table = services.registry.store().events();
  const auto from = number_query(request, "from");
  if (!from) co_return co_await refuse(exchange, from.error());
  // `from` names the first event wanted.
  auto after = static_cast<std::int64_t>(std::min<std::uint64_t>(from->value_or(1), INT64_MAX)) - 1;
  if (!wants_event_stream(request)) {
    auto rows = table.after(tenant, after, kPage);
    if (!rows) co_return co_await refuse(exchange, rows.error());
    json::array events;
    for (const auto& row : *rows) events.push_back(to_json(row));
    const auto next = rows->empty() ? after + 1 : rows->back().seq + 1;
    auto response = http::json_response(200, json::object{{"events", std::move(events)}, {"next", next}});
    [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
    co_return;
  }
  const auto header = request.header("Last-Event-ID");
  std::int64_t last = 0;
  const bool resumed = std::from_chars(header.data(), header.data() + header.size(), last).ec == std::errc();
  if (resumed) after = last;
  // Without a place to start from: from now on.
  if (!resumed && !*from) after = table.last_seq().value_or(0);
  auto head = event_stream();
  if (!co_await exchange.start(std::move(head))) co_return;
  // At once, so that who connects knows that from here on nothing is missed.
  auto text = http::sse_comment();
  const auto first = table.first_seq().value_or(0);
  if ((resumed || *from) && after + 1 < first) {
    const json::object gap{{"type", "gap"}, {"from", after + 1}, {"to", first - 1}};
    text += http::sse_event(std::nullopt, "gap", json::serialize(gap));
  }
  auto spoke = Clock::now();
  while (goes_on(services, exchange) && !services.draining()) {
    const auto rows = table.after(tenant, after, kPage);
    for (const auto& row : rows ? *rows : std::vector<store::EventRow>()) {
      text += http::sse_event(static_cast<std::uint64_t>(row.seq), row.type, json::serialize(to_json(row)));
      after = row.seq;
    }
    if (text.empty() && Clock::now() - spoke > std::chrono::seconds(15)) text = http::sse_comment();
    if (!text.empty()) {
      if (!co_await exchange.write(text)) co_return;
      text.clear();
      spoke = Clock::now();
      continue;
    }
    co_await services.registry.events_changed().wait_until(Clock::now() + std::chrono::milliseconds(500));
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

}  // namespace

void add_event_routes(http::Router& router, Services* services) {
  auto* s = services;
  router.add(http::verb::get, "/v1/events", [s](auto& exchange) { return get_events(*s, exchange); });
}

void add_routes(http::Router& router, Services* services) {
  add_lifecycle_routes(router, services);
  add_template_routes(router, services);
  add_exec_routes(router, services);
  add_process_routes(router, services);
  add_kernel_routes(router, services);
  add_execution_routes(router, services);
  add_dependency_routes(router, services);
  add_file_routes(router, services);
  add_event_routes(router, services);
}

}  // namespace cove::doors::sandboxes
