#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cove {

// Of output that is longer than its limit the beginning and the end are kept: the error is usually in the last lines.
// The beginning is passed on at once; what comes behind it waits here until the end is known. Together they are never
// more than the limit, the line between them included.
class OutputEnd {
 public:
  // How many bytes of the beginning are passed on before add() is called. All of them under a limit so small that
  // there is no use in an end.
  static constexpr std::uint64_t beginning(std::uint64_t limit) { return limit - waiting_room(limit); }

  explicit OutputEnd(std::uint64_t limit) : room_(static_cast<std::size_t>(waiting_room(limit))) {}

  // Bytes behind the beginning.
  void add(std::string_view bytes) {
    if (seen_ < kMaxRest) first_.append(bytes.substr(0, kMaxRest - static_cast<std::size_t>(seen_)));
    seen_ += bytes.size();
    if (bytes.size() > room_) bytes.remove_prefix(bytes.size() - room_);
    held_.append(bytes);
    if (held_.size() > 2 * room_) held_.erase(0, held_.size() - room_);
  }

  // What follows the beginning: all that came, or the line that says how much is left out, and the last bytes.
  std::string take() {
    if (seen_ <= room_ || room_ == 0) {
      left_out_ = seen_ - held_.size();
      return std::move(held_);
    }
    std::size_t rest = 0;  // of a character that the beginning ends in
    while (rest < first_.size() && continues(first_[rest])) ++rest;
    // The longer the number in the line, the fewer bytes are left for the end.
    std::size_t size = room_ - rest - kMaxLine;
    while (size + line_about(seen_ - rest - size).size() < room_ - rest) ++size;
    held_.erase(0, held_.size() - size);
    std::size_t begin = 0;
    while (begin < kMaxRest && continues(held_[begin])) ++begin;
    held_.erase(0, begin);
    left_out_ = seen_ - rest - held_.size();
    return first_.substr(0, rest) + line_about(left_out_) + held_;
  }
  // How many bytes take() left out.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  // The same for whoever received `kept` bytes, the line included, of `written`; 0 when nothing is missing.
  static std::uint64_t left_out(std::uint64_t written, std::uint64_t kept) {
    if (kept >= written) return 0;
    std::uint64_t bytes = written - kept;
    while (bytes < written - kept + line_about(bytes).size()) ++bytes;
    return bytes;
  }

 private:
  static constexpr std::uint64_t kMaxEnd = 64U << 10;
  static constexpr std::uint64_t kLeast = 1U << 10;  // of a limit that is shared between beginning and end
  static constexpr std::size_t kMaxLine = 48;        // with 20 digits
  static constexpr std::size_t kMaxRest = 3;         // bytes of a character behind its first
  static constexpr std::uint64_t waiting_room(std::uint64_t limit) {
    return limit < kLeast ? 0 : std::min(limit / 4, kMaxEnd) + kMaxLine + kMaxRest;
  }
  static std::string line_about(std::uint64_t bytes) {
    return "\n[... " + std::to_string(bytes) + " bytes left out ...]\n";
  }
  static constexpr bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

  std::size_t room_;
  std::string held_;
  std::string first_;
  std::uint64_t seen_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace cove
