#include "mcp/client/event_stream.hpp"

#include <charconv>
#include <utility>

namespace cove::mcp::client {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kMaxId = 4096;  // it goes into a header
constexpr long kMaxRetry = 24L * 3600 * 1000;

}  // namespace

void EventStream::take_line(std::string_view line, std::vector<StreamEvent>& out) {
  if (!begun_) {
    begun_ = true;
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) {
    if (id_) last_id_ = id_;
    if (has_data_) out.push_back({.type = type_.empty() ? "message" : std::move(type_), .data = std::move(data_)});
    data_.clear();
    type_.clear();
    has_data_ = false;
    return;
  }
  const auto colon = line.find(':');
  const auto name = line.substr(0, colon);
  auto value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    if (has_data_) data_ += '\n';
    has_data_ = true;
    data_ += value;
  } else if (name == "event") {
    type_ = value;
  } else if (name == "id") {
    if (value.size() <= kMaxId && value.find('\0') == std::string_view::npos) id_ = value;
  } else if (name == "retry") {
    long time = 0;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), time);
    if (!value.empty() && failed == std::errc() && end == value.data() + value.size() && time >= 0 && time <= kMaxRetry)
      retry_ = std::chrono::milliseconds(time);
  }
}

Result<std::vector<StreamEvent>> EventStream::feed(std::string_view bytes) {
  std::vector<StreamEvent> out;
  if (after_cr_ && !bytes.empty()) {
    if (bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
  }
  while (!bytes.empty()) {
    const auto end = bytes.find_first_of("\r\n");
    const auto part = bytes.substr(0, end);
    if (line_.size() + data_.size() + type_.size() + part.size() > max_)
      return fail(Errc::over_limit, fmt::format("an event of the server is larger than {} bytes", max_));
    line_ += part;
    if (end == std::string_view::npos) break;
    const bool cr = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (cr && bytes.empty()) after_cr_ = true;
    if (cr && bytes.starts_with('\n')) bytes.remove_prefix(1);
    const auto line = std::exchange(line_, {});
    take_line(line, out);
  }
  return out;
}

}  // namespace cove::mcp::client
