#include "init/stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cove::init {

void Stream::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Stream::Read Stream::read_some(char* scratch, std::size_t scratch_size) {
  // Never more than there is room for, unless it is thrown away anyway.
  const std::size_t room = ignoring_ || past_limit() ? scratch_size : std::min(scratch_size, kWindow - kept_.size());
  if (room == 0) return Read::nothing_now;
  const auto n = ::read(fd_, scratch, room);
  if (n < 0) {
    if (errno == EINTR || errno == EAGAIN) return Read::nothing_now;
    return Read::end;  // EIO: the last process on this terminal is gone
  }
  if (n == 0) return Read::end;
  if (ignoring_) return Read::some;
  const auto count = static_cast<std::size_t>(n);
  total_ += count;
  const std::uint64_t held = acknowledged_ + kept_.size();
  kept_.append(scratch, static_cast<std::size_t>(std::min<std::uint64_t>(count, held < limit_ ? limit_ - held : 0)));
  return Read::some;
}

std::string_view Stream::unsent(std::size_t most) const {
  return std::string_view(kept_).substr(sent_, most);
}

void Stream::acknowledge(std::uint64_t offset) {
  if (offset <= acknowledged_) return;
  const auto count = std::min<std::uint64_t>(offset - acknowledged_, sent_);
  kept_.erase(0, static_cast<std::size_t>(count));
  sent_ -= static_cast<std::size_t>(count);
  acknowledged_ += count;
}

}  // namespace cove::init
