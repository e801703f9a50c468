#include "doors/execute/output.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace cove::doors::execute {
namespace {

constexpr std::string_view kMarker = "\n...[truncated]";
constexpr std::uint64_t kMargin = 32;

}  // namespace

std::string shown_output(std::string kept, std::uint64_t written, std::uint64_t limit) {
  if (written > limit) {
    kept.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kept.size(), limit > kMargin ? limit - kMargin : 0)));
    kept += kMarker;
  }
  return replace_invalid_utf8(kept);
}

std::string TextStream::take(std::string_view bytes) {
  held_ += bytes;
  const auto tail = unfinished_utf8(held_);
  auto text = replace_invalid_utf8(std::string_view(held_).substr(0, held_.size() - tail));
  held_.erase(0, held_.size() - tail);
  return text;
}

std::string TextStream::rest() {
  auto text = replace_invalid_utf8(held_);
  held_.clear();
  return text;
}

}  // namespace cove::doors::execute
