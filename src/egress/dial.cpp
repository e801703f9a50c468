#include "egress/dial.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <vector>

#include "egress/expiry.hpp"
#include "egress/sandbox_egress.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
namespace ip = asio::ip;
using async::Task;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::seconds kPatience{5};  // for one address of several

std::string shown(const AuditSubject& subject) {
  const auto host = subject.name.empty() && subject.address ? subject.address->to_string() : subject.name;
  return fmt::format("{}:{}", host, subject.port);
}

tl::unexpected<Error> denied(const Flow& flow, const Policy& policy) {
  return fail(Errc::denied, denied_sentence(flow, policy));
}

Task<error_code> connect(std::shared_ptr<Flow> flow, ip::tcp::endpoint endpoint, Clock::time_point until) {
  auto& socket = flow->upstream;
  error_code failed;
  socket.open(endpoint.protocol(), failed);
  if (failed) co_return failed;
  const Expiry expiry(socket.get_executor(), until, [&socket] {
    error_code ignored;
    socket.close(ignored);
  });
  const auto [unreached] = co_await socket.async_connect(endpoint, kTuple);
  failed = unreached;
  if (flow->is_cut()) co_return error_code(asio::error::operation_aborted);
  if (expiry.late()) co_return error_code(asio::error::timed_out);
  error_code ignored;
  if (failed) {
    socket.close(ignored);
    co_return failed;
  }
  socket.non_blocking(true, ignored);
  socket.set_option(ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  co_return error_code();
}

}  // namespace

std::string denied_sentence(const Flow& flow, const Policy& policy) {
  if (flow.decision.rule.starts_with("caps."))
    return fmt::format(
        "{} is not reached: {} of the network policy of this sandbox is used up; a policy with other caps changes that",
        shown(flow.subject), flow.decision.rule);
  return fmt::format(
      "the network policy of this sandbox (mode {}) does not allow {}: {}; outside, `cove network ID --allow {}` "
      "changes that",
      word_of(policy.mode), shown(flow.subject), flow.decision.rule, shown(flow.subject));
}

Task<Result<>> dial(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, Clock::time_point until) {
  auto& subject = flow->subject;
  flow->decision = egress->judge(*flow);
  if (flow->decision.verdict == Verdict::denied) {
    egress->record(*flow);
    co_return denied(*flow, *egress->policy());
  }
  std::vector<ip::address> addresses;
  if (subject.name.empty()) {
    addresses.push_back(*subject.address);
  } else {
    auto found = co_await egress->common.resolver.resolve(subject.name, until);
    if (!found) {
      egress->record(*flow);
      flow->error = found.error().message;
      co_return tl::unexpected<Error>(found.error());
    }
    // By what holds now, which may not be what held when the lookup began.
    const auto policy = egress->policy();
    flow->decision = egress->judge(*flow);
    Decision refusal;
    for (const auto& address : *found) {
      auto decision = decide_resolved(*policy, address, subject.port);
      if (decision.verdict == Verdict::allowed) {
        addresses.push_back(address);
      } else if (refusal.rule.empty()) {
        refusal = std::move(decision);
        subject.address = address;
      }
    }
    if (flow->decision.verdict == Verdict::allowed && addresses.empty()) flow->decision = std::move(refusal);
    if (flow->decision.verdict == Verdict::denied) {
      egress->record(*flow);
      co_return denied(*flow, *policy);
    }
  }
  if (egress->meter.is_spent()) {
    flow->decision = {.verdict = Verdict::denied, .rule = "caps.bytes"};
    egress->record(*flow);
    co_return denied(*flow, *egress->policy());
  }
  subject.address = addresses.front();
  // A policy that changes while the server is waited for is about this one too.
  flow->judged = true;
  error_code last;
  for (const auto& address : addresses) {
    if (Clock::now() >= until) break;
    subject.address = address;
    const auto patience = addresses.size() == 1 ? until : std::min(until, Clock::now() + kPatience);
    last = co_await connect(flow, {address, subject.port}, patience);
    if (!last || flow->is_cut()) break;
  }
  egress->record(*flow);
  if (flow->is_cut())
    co_return fail(Errc::unavailable, fmt::format("the connection to {} was ended: {}", shown(subject), flow->error));
  if (!last) co_return Result<>();
  flow->error = last.message();
  const auto code = last == asio::error::timed_out ? ETIMEDOUT : last.value();
  co_return tl::unexpected<Error>(
      Error{.code = Errc::unavailable,
            .message = fmt::format("{} cannot be reached: {}", shown(subject), last.message()),
            .sys_errno = code});
}

}  // namespace cove::egress
