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

// Puts messages together again. What comes is the word of code nobody has read.
class MessageReader {
 public:
  explicit MessageReader(std::size_t most) : most_(most) {}
  // A whole message when this record was its last. Errc::invalid for a record that is none. Errc::over_limit, once, for
  // a message that is larger than `most` bytes; the rest of it is passed over.
  Result<std::optional<std::string>> add(std::string_view record);
  // How the one that was too large begins.
  [[nodiscard]] const std::string& head() const { return head_; }

 private:
  std::size_t most_;
  std::string message_;
  std::string head_;
  bool open_ = false;  // a first record has come
};

// The last whole message of these records, if it was no larger than `most`.
std::optional<std::string> last_of(const std::vector<std::string_view>& records, std::size_t most);

}  // namespace cove::guest
