#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cove::doors::mcp {

// What an answer can show of one stream: all that was written or, of more than a limit, its beginning and its end.
class StreamEnds {
 public:
  explicit StreamEnds(std::size_t limit = 0)
      : most_end_(std::min(limit / 4, kMostEnd)), most_beginning_(limit - most_end_) {}

  void add(std::string_view bytes) {
    written_ += bytes.size();
    const auto first = bytes.substr(0, most_beginning_ - beginning_.size());
    beginning_ += first;
    bytes.remove_prefix(first.size());
    if (bytes.size() > most_end_) {
      end_.clear();
      bytes.remove_prefix(bytes.size() - most_end_);
    }
    end_ += bytes;
    if (end_.size() > 2 * most_end_) end_.erase(0, end_.size() - most_end_);
  }
  // How much the program wrote, when not all of it came here.
  void set_written(std::uint64_t bytes) { written_ = std::max(written_, bytes); }

  [[nodiscard]] std::uint64_t written() const { return written_; }
  [[nodiscard]] bool empty() const { return written_ == 0; }
  // Whether nothing is missing between the beginning and the end.
  [[nodiscard]] bool whole() const { return beginning_.size() + end_.size() == written_; }
  [[nodiscard]] const std::string& beginning() const { return beginning_; }
  [[nodiscard]] const std::string& end() const { return end_; }

 private:
  static constexpr std::size_t kMostEnd = std::size_t{64} << 10;
  std::size_t most_end_;
  std::size_t most_beginning_;
  std::string beginning_;
  std::string end_;
  std::uint64_t written_ = 0;
};

}  // namespace cove::doors::mcp
