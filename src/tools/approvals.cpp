#include "tools/approvals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/random.hpp"

namespace cove::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{200};  // for callers that have left

}  // namespace

std::shared_ptr<Approvals::Desk> Approvals::desk_of(const std::string& sandbox) {
  auto& desk = desks_[sandbox];
  if (!desk) desk = std::make_shared<Desk>(executor_);
  return desk;
}

void Approvals::settle(const std::shared_ptr<Pending>& pending, ApprovalAnswer answer) {
  if (pending->answer) return;
  pending->answer = std::move(answer);
  pending->changed.notify_all();
}

async::Task<Result<ApprovalAnswer>> Approvals::ask(std::string sandbox, ApprovalRequest request,
                                                   std::chrono::milliseconds patience, Unattended unattended,
                                                   std::function<bool()> abandoned) {
  const auto desk = desk_of(sandbox);
  if (desk->approver == 0 && unattended == Unattended::fail)
    co_return ApprovalAnswer{.kind = ApprovalAnswer::Kind::unconnected};
  if (desk->pending.size() >= kMaxPending)
    co_return fail(Errc::over_limit, fmt::format("{} calls wait for approval already", kMaxPending));
  request.id = fmt::format("{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
  request.created_unix_ms = unix_millis();
  const auto pending = std::make_shared<Pending>(executor_, std::move(request));
  const auto id = pending->request.id;
  desk->pending.emplace(id, pending);
  ++count_;
  // Also when the task is cancelled.
  const std::shared_ptr<void> removed(nullptr, [this, desk, id](void*) {
    desk->pending.erase(id);
    --count_;
  });
  if (desk->approver != 0) {
    pending->approver = desk->approver;
    desk->send(pending->request);
  }
  const auto until = Clock::now() + patience;
  while (!pending->answer) {
    if (abandoned && abandoned()) co_return ApprovalAnswer{.kind = ApprovalAnswer::Kind::abandoned};
    if (patience.count() > 0 && Clock::now() >= until) co_return ApprovalAnswer{.kind = ApprovalAnswer::Kind::expired};
    co_await pending->changed.wait_until(patience.count() > 0 ? std::min(until, Clock::now() + kLook)
                                                              : Clock::now() + kLook);
  }
  co_return *pending->answer;
}

std::vector<ApprovalRequest> Approvals::pending(const std::string& sandbox) const {
  std::vector<ApprovalRequest> out;
  const auto desk = desks_.find(sandbox);
  if (desk == desks_.end()) return out;
  for (const auto& [id, pending] : desk->second->pending) {
    if (!pending->answer) out.push_back(pending->request);
  }
  std::ranges::sort(out, {}, &ApprovalRequest::created_unix_ms);
  return out;
}

Result<> Approvals::answer(const std::string& sandbox, std::string_view id, bool approved, std::string reason) {
  const auto desk = desks_.find(sandbox);
  if (desk != desks_.end()) {
    const auto found = desk->second->pending.find(id);
    if (found != desk->second->pending.end() && !found->second->answer) {
      settle(found->second, {.kind = approved ? ApprovalAnswer::Kind::approved : ApprovalAnswer::Kind::rejected,
                             .reason = std::move(reason)});
      return {};
    }
  }
  return fail(Errc::not_found, "no call waits for this approval: it was answered, has expired, or never was");
}

async::Task<Result<std::uint64_t>> Approvals::attach(std::string sandbox, Send send,
                                                     std::chrono::milliseconds patience) {
  const auto desk = desk_of(sandbox);
  const auto until = Clock::now() + patience;
  while (desk->approver != 0) {
    if (Clock::now() >= until) co_return fail(Errc::conflict, "another approver is connected");
    co_await desk->left.wait_until(until);
  }
  desk->approver = next_++;
  desk->send = std::move(send);
  supervised_[sandbox] = true;
  // What waited for somebody to list it.
  for (const auto& [id, pending] : desk->pending) {
    if (pending->answer || pending->approver != 0) continue;
    pending->approver = desk->approver;
    desk->send(pending->request);
  }
  co_return desk->approver;
}

void Approvals::detach(const std::string& sandbox, std::uint64_t approver) {
  const auto found = desks_.find(sandbox);
  if (found == desks_.end() || found->second->approver != approver) return;
  const auto desk = found->second;
  desk->approver = 0;
  desk->send = nullptr;
  for (const auto& [id, pending] : desk->pending) {
    if (pending->approver == approver) settle(pending, {.kind = ApprovalAnswer::Kind::disconnected});
  }
  desk->left.notify_all();
}

bool Approvals::supervised(const std::string& sandbox) const {
  const auto desk = desks_.find(sandbox);
  return supervised_.contains(sandbox) || (desk != desks_.end() && desk->second->approver != 0);
}

void Approvals::forget(const std::string& sandbox) {
  supervised_.erase(sandbox);
  const auto found = desks_.find(sandbox);
  if (found == desks_.end()) return;
  for (const auto& [id, pending] : found->second->pending) settle(pending, {.kind = ApprovalAnswer::Kind::abandoned});
  if (found->second->approver == 0) desks_.erase(found);
}

std::string refusal_of(const ApprovalAnswer& answer, std::string_view server, std::string_view tool) {
  const auto about = fmt::format("Approval request for {}.{}", server, tool);
  switch (answer.kind) {
    case ApprovalAnswer::Kind::approved:
      return {};
    case ApprovalAnswer::Kind::rejected:
      return answer.reason.empty() ? about + " rejected" : fmt::format("{} rejected: {}", about, answer.reason);
    case ApprovalAnswer::Kind::expired:
      return about + " expired";
    case ApprovalAnswer::Kind::unconnected:
      return about + " failed: Approval channel not connected";
    case ApprovalAnswer::Kind::disconnected:
      return about + " failed: Approval channel disconnected";
    case ApprovalAnswer::Kind::abandoned:
      break;
  }
  return about + " was given up";
}

}  // namespace cove::tools
