#include "base/io.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace cove {

Result<UniqueFd> open_at(int dir_fd, const std::string& path, int flags, unsigned mode) {
  UniqueFd fd(::openat(dir_fd, path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return fail_errno(errno, "open {}", path);
  return fd;
}

Result<std::string> read_all(int fd, std::size_t limit) {
  std::string text;
  std::array<char, 16384> chunk;
  while (true) {
    const auto n = ::read(fd, chunk.data(), chunk.size());
    if (n == 0) return text;
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, "read");
    }
    text.append(chunk.data(), static_cast<std::size_t>(n));
    if (text.size() > limit) return fail(Errc::over_limit, fmt::format("longer than {} bytes", limit));
  }
}

Result<std::string> read_file_at(int dir_fd, const std::string& path, std::size_t limit) {
  COVE_TRY(const auto fd, open_at(dir_fd, path, O_RDONLY));
  auto text = read_all(fd.get(), limit);
  if (!text) return fail(text.error().code, fmt::format("{}: {}", path, text.error().message));
  return text;
}

Result<> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, "write");
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<> write_file_at(int dir_fd, const std::string& path, std::string_view text) {
  COVE_TRY(const auto fd, open_at(dir_fd, path, O_WRONLY));
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail_errno(errno, "write '{}' to {}", text, path);
  }
  return {};
}

}  // namespace cove
