#include "client/tar_gz.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <vector>

namespace cove::client {

void TarGz::Close::operator()(struct archive* writer) const {
  archive_write_free(writer);
}

tl::unexpected<Error> TarGz::failure() const {
  const char* words = archive_error_string(writer_.get());
  return fail(Errc::io, fmt::format("create the archive: {}", words != nullptr ? words : "unknown"));
}

Result<TarGz> TarGz::to(int fd) {
  TarGz tar(archive_write_new());
  auto* writer = tar.writer_.get();
  std::setlocale(LC_CTYPE, "C.UTF-8");  // names are UTF-8, and libarchive asks the locale
  const bool ready = writer != nullptr && archive_write_set_format_pax_restricted(writer) == ARCHIVE_OK &&
                     archive_write_add_filter_gzip(writer) == ARCHIVE_OK &&
                     archive_write_set_options(writer, "gzip:!timestamp") == ARCHIVE_OK &&
                     archive_write_open_fd(writer, fd) == ARCHIVE_OK;
  if (!ready) return tar.failure();
  return tar;
}

Result<> TarGz::add(const std::string& name, int fd, std::uint64_t size) {
  const std::unique_ptr<struct archive_entry, void (*)(struct archive_entry*)> entry(archive_entry_new(),
                                                                                     archive_entry_free);
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_filetype(entry.get(), S_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
  const int status = archive_write_header(writer_.get(), entry.get());
  if (status != ARCHIVE_OK && status != ARCHIVE_WARN) return failure();
  std::vector<char> chunk(128U << 10);
  std::uint64_t read = 0;
  while (true) {
    const auto n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read {}", name);
    if (n == 0) break;
    read += static_cast<std::uint64_t>(n);
    if (read > size) break;
    if (archive_write_data(writer_.get(), chunk.data(), static_cast<std::size_t>(n)) != n) return failure();
  }
  if (read != size) return fail(Errc::io, fmt::format("{} changed size while it was being read", name));
  return {};
}

Result<> TarGz::finish() {
  if (archive_write_close(writer_.get()) != ARCHIVE_OK) return failure();
  return {};
}

}  // namespace cove::client
