#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::guest {

// Messages over a process's channel. Each travels as records of at most wire::kMaxRecord bytes: one byte of flags, then
// a piece of the message. Records keep their borders, so whoever comes in the middle waits for the next first one.

std::vector<std::string> records_of(std::string_view message);

// Puts messages together again. Records come from code nobody has read, and are checked.
class MessageReader {
 public:
  explicit MessageReader(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  // A whole message when this record was its last. Errc::invalid for a record that is none. Errc::over_limit, once, for
  // a message that is larger than `max_bytes`; the rest of it is passed over.
  Result<std::optional<std::string>> add(std::string_view record);
  // The beginning of the message that was too large.
  [[nodiscard]] const std::string& head() const { return head_; }

 private:
  std::size_t max_bytes_;
  std::string message_;
  std::string head_;
  bool open_ = false;  // a first record has come
};

// The last whole message of these records, if it was no larger than `max_bytes`.
std::optional<std::string> last_of(const std::vector<std::string_view>& records, std::size_t max_bytes);

}  // namespace cove::guest
