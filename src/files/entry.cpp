#include "files/entry.hpp"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <ctime>

#include "base/text.hpp"
#include "files/json.hpp"
#include "files/names.hpp"

namespace cove::files {

std::string read_link(int dir_fd, const std::string& name) {
  std::array<char, PATH_MAX> target;
  const auto n = ::readlinkat(dir_fd, name.c_str(), target.data(), target.size());
  return n > 0 ? std::string(target.data(), static_cast<std::size_t>(n)) : std::string();
}

Entry make_entry(std::string path, int dir_fd, const std::string& name, const struct stat& st) {
  Entry entry{.path = std::move(path),
              .type = "other",
              .size = static_cast<std::uint64_t>(st.st_size),
              .mode = st.st_mode & 07777,
              .mtime = st.st_mtim};
  if (S_ISREG(st.st_mode)) entry.type = "file";
  if (S_ISDIR(st.st_mode)) entry.type = "directory";
  if (S_ISLNK(st.st_mode)) {
    entry.type = "symlink";
    entry.target = read_link(dir_fd, name);
  }
  return entry;
}

std::string format_mode(std::uint32_t mode) {
  return fmt::format("{:04o}", mode & 07777);
}

std::string format_time(const timespec& time) {
  tm parts{};
  if (::gmtime_r(&time.tv_sec, &parts) == nullptr) return "1970-01-01T00:00:00.000Z";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, time.tv_nsec / 1'000'000);
}

std::string to_json(const Entry& entry) {
  auto json = fmt::format(R"({{"path":{},"name":{},"type":"{}","size":{},"mode":"{}","mtime":"{}")",
                          json_string(entry.path), json_string(base_name(entry.path)), entry.type, entry.size,
                          format_mode(entry.mode), format_time(entry.mtime));
  if (!valid_utf8(entry.path)) json += R"(,"not_utf8":true)";
  if (entry.type == "symlink") json += fmt::format(R"(,"target":{})", json_string(entry.target));
  return json + "}";
}

}  // namespace cove::files
