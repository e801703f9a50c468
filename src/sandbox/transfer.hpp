#pragma once

#include <utility>

namespace cove::sandbox {

// Counts as file work, for which a server that stops waits, while it lives.
class Transfer {
 public:
  explicit Transfer(int& going_on) : going_on_(&going_on) { ++going_on; }
  Transfer(Transfer&& other) noexcept : going_on_(std::exchange(other.going_on_, nullptr)) {}
  Transfer& operator=(Transfer&&) = delete;
  ~Transfer() {
    if (going_on_ != nullptr) --*going_on_;
  }

 private:
  int* going_on_;
};

}  // namespace cove::sandbox
