#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::sandbox {

// Messages over a process's channel. Each travels as records of at most wire::kMaxRecord bytes: one byte of flags, then
// a piece of the message. Records keep their borders, so whoever comes in the middle waits for the next first one.

std::vector<std::string> records_of(std::string_view message);

// Puts messages together again. What comes is the word of code nobody has read.
class MessageReader {
 public:
  explicit MessageReader(std::size_t most) : most_(most) {}
  // A whole message when this record was its last. Errc::invalid for a record that is none, or a message that is larger
  // than `most` bytes.
  Result<std::optional<std::string>> add(std::string_view record);

 private:
  std::size_t most_;
  std::string message_;
  bool open_ = false;  // a first record has come
};

}  // namespace cove::sandbox
