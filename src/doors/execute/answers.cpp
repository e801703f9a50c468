#include "doors/execute/answers.hpp"

#include <algorithm>

namespace cove::doors::execute {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

http::Response answer_to(const Error& error, const config::Config& config) {
  switch (error.code) {
    case Errc::invalid:
      return detail(422, error.message);
    case Errc::not_found:
      return detail(404, error.message);
    case Errc::conflict:
    case Errc::exists:
      return detail(409, error.message);
    case Errc::over_limit:
      if (error.sys_errno == ENOSPC) return detail(507, "No space is left to keep files");
      if (error.sys_errno == EDQUOT)
        return later(detail(507, error.message),
                     error.retry_after.count() > 0 ? error.retry_after : config.execute.capacity_retry_after);
      if (error.sys_errno == 0) return detail(413, error.message);
      [[fallthrough]];
    case Errc::unavailable:
      return later(detail(503, error.message), config.execute.capacity_retry_after);
    default:
      return detail(500, error.message);
  }
}

Task<Or<Value>> read_value(const Services& services, http::Exchange& exchange) {
  return fastapi::read_value(exchange, services.config()->http.max_body_bytes);
}

Or<milliseconds> checked_timeout(milliseconds asked, const config::Config& config) {
  const auto most = config.execute.max_timeout;
  if (asked > most) return refuse(422, fmt::format("timeout_ms exceeds maximum of {} ms", most.count()));
  return asked;
}

std::function<bool()> gone(const http::Exchange& exchange) {
  return [&exchange] { return exchange.client_gone(); };
}

run::Caller caller_of(const http::Exchange& exchange) {
  return {.principal = exchange.request().principal, .gone = gone(exchange)};
}

http::Response no_capacity(Services& services, Operation operation, const Error& error) {
  const bool full = error.code == Errc::quota;
  if (!full && error.code != Errc::unavailable && error.code != Errc::over_limit)
    return detail(500, fmt::format("The executor could not start: {}", error.message));
  const std::string_view reason = full ? "quota_exceeded" : "unschedulable";
  services.meter.rejected(operation, 503, reason);
  const auto sentence = fmt::format("Executor capacity unavailable ({}): {}", reason, error.message);
  return later(detail(503, sentence), services.config->execute.capacity_retry_after);
}

Task<Or<Admitted>> admit(Services& services, http::Exchange& exchange, Operation operation) {
  const auto config = services.config();
  const auto& limits = config->execute;
  if (services.draining())
    co_return tl::unexpected<http::Response>(later(detail(503, "The server is shutting down"), limits.retry_after));
  const auto saturated = [&](std::string_view why, milliseconds known = {}) {
    if (exchange.client_gone()) return refuse(503, "The request was abandoned");
    services.meter.rejected(operation, 429, "concurrency_limit");
    return tl::unexpected<http::Response>(later(detail(429, why), known.count() > 0 ? known : limits.retry_after));
  };
  const auto& principal = exchange.request().principal;
  const auto share = services.authority.allowance(principal).executions;
  const auto left_alone = gone(exchange);
  const auto began = Clock::now();
  const auto words = fmt::format("The executor is saturated: {} executions run at once, and none ended in time",
                                 limits.max_concurrent);
  // A tenant holds no more slots than it may use.
  const sandbox::Admission::Share slots{.at_once = share.at_once};
  auto slot = co_await services.slots.enter(principal.tenant, slots, left_alone, limits.queue_timeout);
  if (!slot) co_return saturated(words);
  const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
  const auto left = std::max(milliseconds(0), limits.queue_timeout - waited);
  auto ticket = co_await services.admission.enter(principal.tenant, share, left_alone, left);
  if (!ticket && ticket.error().code == Errc::quota)
    co_return saturated("saturated: " + ticket.error().message, ticket.error().retry_after);
  if (!ticket) co_return saturated(words);
  services.meter.waited(operation, Clock::now() - began);
  co_return Admitted{
      .slot = std::move(*slot), .ticket = std::move(*ticket), .running = Meter::Running(services.meter, operation)};
}

}  // namespace cove::doors::execute
