#include "sandbox/kernels.hpp"

#include <algorithm>
#include <charconv>

#include "sandbox/journal_outcome.hpp"

namespace cove::sandbox {

Kernels::Kernels() {
  totals_->forget_oldest = [this](const std::string& tenant) { return forget_oldest(tenant); };
}

bool Kernels::forget_oldest(const std::string& tenant) {
  RecentExecutions* largest = nullptr;
  for (const auto& [id, group] : by_sandbox_) {
    for (const auto& [name, kernel] : group.kernels) {
      auto& recent = kernel->recent();
      if (recent.empty() || recent.tenant() != tenant) continue;
      if (largest == nullptr || recent.bytes() > largest->bytes()) largest = &recent;
    }
  }
  if (largest != nullptr) largest->forget_oldest();
  return largest != nullptr;
}

async::Task<Result<std::shared_ptr<Kernel>>> Kernels::start(std::shared_ptr<Sandbox> sandbox, KernelOptions options) {
  const auto key = sandbox->row().id;
  auto& group = by_sandbox_[key];
  if (group.kernels.size() + group.starting >= kMax)
    co_return fail(Errc::quota, fmt::format("the limit of {} kernels in a sandbox is reached: delete one first", kMax));
  auto id = fmt::format("k{}", group.next++);
  ++group.starting;
  journal::Act act{.kind = journal::kind::kKernel,
                   .summary = fmt::format("start {} ({})", id, name_of(options.language))};
  act.detail = {{"verb", "start"}, {"kernel", id}, {"language", name_of(options.language)}};
  const auto entry = sandbox->begin_act(options.actor, std::move(act));
  auto kernel = co_await Kernel::start(sandbox, std::move(id), std::move(options), totals_);
  if (entry) entry->end(outcome_of(kernel));
  // The sandbox may be gone by now, and the group with it.
  const auto found = by_sandbox_.find(key);
  if (found == by_sandbox_.end()) co_return fail(Errc::not_found, "the sandbox ended");
  --found->second.starting;
  if (kernel) found->second.kernels.emplace((*kernel)->id(), *kernel);
  co_return kernel;
}

std::vector<std::shared_ptr<Kernel>> Kernels::of(const Sandbox& sandbox) const {
  std::vector<std::shared_ptr<Kernel>> out;
  if (const auto found = by_sandbox_.find(sandbox.row().id); found != by_sandbox_.end()) {
    for (const auto& [id, kernel] : found->second.kernels) out.push_back(kernel);
  }
  return out;
}

Result<std::shared_ptr<Kernel>> Kernels::find(const Sandbox& sandbox, std::string_view id) const {
  if (const auto group = by_sandbox_.find(sandbox.row().id); group != by_sandbox_.end()) {
    if (const auto found = group->second.kernels.find(id); found != group->second.kernels.end()) return found->second;
  }
  return fail(Errc::not_found, fmt::format("kernel not found: {}", id));
}

async::Task<> Kernels::remove(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Kernel> kernel, journal::Actor actor) {
  if (const auto entry = sandbox->begin_act(actor, kernel->act_of("end"))) entry->end({.word = "ok"});
  if (const auto group = by_sandbox_.find(sandbox->row().id); group != by_sandbox_.end())
    group->second.kernels.erase(kernel->id());
  co_await kernel->stop();
}

void Kernels::adopt(const std::shared_ptr<Sandbox>& sandbox) {
  for (const auto& process : sandbox->interpreters()) {
    const auto kernel = Kernel::adopt(sandbox, process, totals_);
    auto& group = by_sandbox_[sandbox->row().id];
    group.kernels.emplace(kernel->id(), kernel);
    // Ids are not given twice.
    const std::string_view digits = std::string_view(kernel->id()).substr(1);
    std::uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    group.next = std::max(group.next, number + 1);
  }
}

void Kernels::cancel_all(Reason reason) {
  for (const auto& [id, group] : by_sandbox_) {
    for (const auto& [name, kernel] : group.kernels) kernel->cancel_all(reason);
  }
}

std::size_t Kernels::count(Kernel::State state) const {
  std::size_t count = 0;
  for (const auto& [id, group] : by_sandbox_) {
    for (const auto& [name, kernel] : group.kernels) count += kernel->state() == state ? 1 : 0;
  }
  return count;
}

std::uint64_t Kernels::ended(Reason reason) const {
  const auto found = totals_->ended.find(reason);
  return found == totals_->ended.end() ? 0 : found->second;
}

}  // namespace cove::sandbox
