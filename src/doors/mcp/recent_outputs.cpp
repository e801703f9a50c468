#include "doors/mcp/recent_outputs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/random_name.hpp"
#include "base/units.hpp"

namespace cove::doors::mcp {
namespace {

using Clock = std::chrono::steady_clock;

// Of one stream in memory. With 4096 outputs that is 64 MiB at most.
constexpr std::size_t kInMemory = std::size_t{8} << 10;

}  // namespace

// What is kept, and what everything takes that is kept or being written.
struct RecentOutputs::Books {
  std::chrono::seconds age;
  std::deque<std::shared_ptr<Output>> outputs = {};  // oldest first
  TenantUsage usage = {};
  std::uint64_t evicted = 0;

  void drop_old() {
    while (!outputs.empty() && outputs.front()->at_ + age < Clock::now()) outputs.pop_front();
  }
  // Drops outputs until the tenant may hold so much more. False: there is nothing left to drop.
  bool make_room(const std::string& tenant, Amount more, const UsageBounds& bounds) {
    for (auto bound = usage.passed(tenant, more, bounds); bound != Bound::none;
         bound = usage.passed(tenant, more, bounds)) {
      const bool own = bound == Bound::tenant_count || bound == Bound::tenant_bytes;
      const auto loser = own ? tenant : usage.largest_holder(bound);
      const auto found = std::ranges::find(outputs, loser, [](const auto& one) { return one->tenant_; });
      if (found == outputs.end()) return false;
      outputs.erase(found);
      ++evicted;
    }
    return true;
  }
};

// --- Stream

void RecentOutputs::Stream::append(std::string_view bytes) {
  received_ += bytes.size();
  written_ += bytes.size();
  if (!end_) {
    const auto beginning = OutputEnd::beginning(output_.limits_.stream_bytes);
    const auto first = bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(beginning - size_, SIZE_MAX)));
    keep(first);
    bytes.remove_prefix(first.size());
    if (bytes.empty() || !refusal_.empty()) return;
    end_.emplace(output_.limits_.stream_bytes);
  }
  end_->add(bytes);
}

void RecentOutputs::Stream::finish(std::optional<std::uint64_t> written) {
  if (written) written_ = std::max(written_, *written);
  auto missing = OutputEnd::left_out(written_, received_);  // what the sender left out
  if (end_ && refusal_.empty()) {
    keep(end_->take());
    missing += end_->left_out();
  }
  end_.reset();
  left_out_ = refusal_.empty() ? missing : written_ - size_;
  if (file_) file_->seal();
}

void RecentOutputs::Stream::keep(std::string_view bytes) {
  if (bytes.empty() || !refusal_.empty()) return;
  if (auto stored = store(bytes); !stored) {
    refusal_ = std::move(stored.error().message);
    return;
  }
  size_ += bytes.size();
}

Result<> RecentOutputs::Stream::store(std::string_view bytes) {
  const auto books = output_.books_.lock();
  if (!books) return fail(Errc::unavailable, "the server is ending");
  const auto& bounds = output_.limits_.bounds;
  const Amount more{.count = 0, .bytes = bytes.size()};
  if (!books->make_room(output_.tenant_, more, bounds))
    return fail(Errc::over_limit,
                fmt::format("the outputs of one tenant may take {}, of all tenants {} (mcp.tenant_outputs_size, "
                            "mcp.max_outputs_size)",
                            format_size(bounds.tenant.bytes), format_size(bounds.all.bytes)));
  if (!file_ && memory_.size() + bytes.size() > kInMemory) {
    COVE_TRY(auto file, output_.spool_.create());
    COVE_CHECK(file.append(memory_));
    memory_ = {};
    file_.emplace(std::move(file));
  }
  if (file_) {
    if (!output_.spool_.has_room(bytes.size())) return fail(Errc::over_limit, "the disk is full (files.reserve)");
    COVE_CHECK(file_->append(bytes));
  } else {
    memory_ += bytes;
  }
  books->usage.charge(output_.tenant_, more);
  output_.charged_ += bytes.size();
  return {};
}

Result<std::string> RecentOutputs::Stream::read(std::uint64_t offset, std::size_t size) const {
  if (file_) return file_->read(offset, size);
  return offset < memory_.size() ? memory_.substr(static_cast<std::size_t>(offset), size) : std::string();
}

// --- Output

RecentOutputs::Output::Output(std::weak_ptr<Books> books, store::Spool& spool, std::string tenant, Limits limits)
    : out(*this),
      err(*this),
      id_(new_output_id()),
      tenant_(std::move(tenant)),
      limits_(limits),
      books_(std::move(books)),
      spool_(spool),
      at_(Clock::now()) {}

RecentOutputs::Output::~Output() {
  if (const auto books = books_.lock()) books->usage.release(tenant_, {.count = 1, .bytes = charged_});
}

void RecentOutputs::Output::finish(std::optional<Written> written) {
  out.finish(written ? std::optional(written->out) : std::nullopt);
  err.finish(written ? std::optional(written->err) : std::nullopt);
}

// --- RecentOutputs

RecentOutputs::RecentOutputs(store::Spool& spool, std::chrono::seconds age)
    : books_(std::make_shared<Books>(Books{.age = age})), spool_(spool) {}

std::shared_ptr<RecentOutputs::Output> RecentOutputs::begin(std::string tenant, const Limits& limits) {
  books_->drop_old();
  // One too many of those that run is no reason to refuse a run: admission bounds them.
  books_->make_room(tenant, {.count = 1, .bytes = 0}, limits.bounds);
  books_->usage.charge(tenant, {.count = 1, .bytes = 0});
  return std::make_shared<Output>(books_, spool_, std::move(tenant), limits);
}

void RecentOutputs::keep(const std::shared_ptr<Output>& output) {
  output->at_ = Clock::now();
  books_->outputs.push_back(output);
}

std::shared_ptr<const RecentOutputs::Output> RecentOutputs::find(std::string_view tenant, std::string_view id) {
  books_->drop_old();
  auto& outputs = books_->outputs;
  const auto found = std::ranges::find(outputs, id, [](const auto& output) -> std::string_view { return output->id_; });
  return found == outputs.end() || (*found)->tenant_ != tenant ? nullptr : *found;
}

const Amount& RecentOutputs::held() const {
  return books_->usage.all();
}

const std::uint64_t& RecentOutputs::evicted() const {
  return books_->evicted;
}

std::string new_output_id() {
  return random_name("");
}

std::string execution_uri(std::string_view id, std::string_view stream) {
  return fmt::format("execution://{}/{}", id, stream);
}

}  // namespace cove::doors::mcp
