#include "sandbox/reader.hpp"

#include <algorithm>

namespace cove::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Reader::Reader(std::shared_ptr<Process> process, std::uint64_t from)
    : process_(std::move(process)), next_(std::max<std::uint64_t>(1, from)), progress_(Clock::now()) {
  process_->add_reader(*this);
}

Reader::~Reader() {
  process_->remove_reader(*this);
}

Reader::Batch Reader::take(std::size_t bytes) {
  auto batch = process_->read(next_, bytes);
  if (!batch.events.empty()) {
    progress_ = Clock::now();
    process_->acknowledge();
  }
  return batch;
}

}  // namespace cove::sandbox
