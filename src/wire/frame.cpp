#include "wire/frame.hpp"

#include <cstring>

namespace cove::wire {

void append_frame(std::string& out, FrameType type, std::uint32_t process, std::string_view payload) {
  const FrameHeader header{.size = static_cast<std::uint32_t>(payload.size()), .type = type, .process = process};
  char bytes[sizeof header];
  std::memcpy(bytes, &header, sizeof header);
  out.append(bytes, sizeof header);
  out.append(payload);
}

std::optional<Frame> FrameReader::next() {
  if (taken_ > 0 && (taken_ == buffer_.size() || taken_ >= (1U << 16))) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  FrameHeader header;
  if (broken_ || buffer_.size() - taken_ < sizeof header) return std::nullopt;
  std::memcpy(&header, buffer_.data() + taken_, sizeof header);
  if (header.size > kMaxPayload) {
    broken_ = true;
    return std::nullopt;
  }
  if (buffer_.size() - taken_ < sizeof header + header.size) return std::nullopt;
  const std::string_view payload(buffer_.data() + taken_ + sizeof header, header.size);
  taken_ += sizeof header + header.size;
  return Frame{.type = header.type, .process = header.process, .payload = payload};
}

}  // namespace cove::wire
