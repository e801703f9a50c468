#include "store/spool.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/random_name.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kSpooled = ".spool-";

}  // namespace

Spool::File::~File() {
  if (directory_) ::unlinkat(directory_->get(), name_.c_str(), 0);  // if it fails, the next sweep finds it
}

Result<> Spool::File::append(std::string_view bytes) {
  const auto written = write_all(writer_.get(), bytes);
  if (written) {
    size_ += bytes.size();
    return {};
  }
  // A part may have been written. What was promised stays readable: size_ says where it ends.
  return tl::unexpected<Error>(written.error());
}

Result<std::string> Spool::File::read(std::uint64_t offset, std::size_t size) const {
  if (offset >= size_) return std::string();
  COVE_TRY(const auto file, open_at(directory_->get(), name_, O_RDONLY | O_NOFOLLOW));
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(size, size_ - offset)), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto got = ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read spooled output");
    if (got == 0) return fail(Errc::io, "spooled output is shorter than it was");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

Result<Spool::File> Spool::create() {
  auto name = random_name(kSpooled);
  COVE_TRY(auto writer, open_at(directory_->get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  return File(directory_, std::move(name), std::move(writer));
}

bool Spool::has_room(std::uint64_t more) const {
  struct statvfs disk{};
  if (reserve_bytes_ == 0 || ::fstatvfs(directory_->get(), &disk) != 0) return true;
  const auto free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  return free >= reserve_bytes_ && free - reserve_bytes_ >= more;
}

Result<std::size_t> Spool::sweep() {
  const int copy = ::openat(directory_->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy),
                                                    [](DIR* dir) { return ::closedir(dir); });
  if (!entries) return fail_errno(errno, "read the directory of spooled output");
  std::size_t gone = 0;
  while (const auto* entry = ::readdir(entries.get())) {
    if (!std::string_view(entry->d_name).starts_with(kSpooled)) continue;
    if (::unlinkat(directory_->get(), entry->d_name, 0) == 0) ++gone;
  }
  return gone;
}

}  // namespace cove::store
