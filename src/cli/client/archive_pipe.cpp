#include "cli/client/archive_pipe.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.hpp"
#include "base/io.hpp"
#include "files/pack.hpp"
#include "files/unpack.hpp"

namespace cove::cli {
namespace {

// Far above a sandbox's disk; a larger archive is an attempt to fill this machine's.
constexpr std::uint64_t kMaxUnpacked = std::uint64_t{64} << 30;
// Above deflate's maximum of 1032 to 1, so that a file of zeros within kMaxUnpacked passes.
constexpr std::uint64_t kAnyRatio = 2000;

Result<std::pair<UniqueFd, UniqueFd>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

}  // namespace

Result<std::unique_ptr<PackPipe>> PackPipe::start(const std::string& directory, Directories directories) {
  COVE_TRY(auto ends, make_pipe());
  auto pipe = std::make_unique<PackPipe>();
  pipe->out_ = std::move(ends.first);
  pipe->in_ = std::move(ends.second);
  pipe->thread_ = std::thread([self = pipe.get(), directory, directories] {
    self->outcome_ = files::pack(directory, self->in_.get(), {.only_files = directories == Directories::without});
    self->in_.reset();
  });
  return pipe;
}

PackPipe::~PackPipe() {
  out_.reset();  // makes the next write of a running packer fail
  if (thread_.joinable()) thread_.join();
}

Result<std::size_t> PackPipe::read(std::span<char> buffer) {
  while (true) {
    const auto n = ::read(out_.get(), buffer.data(), buffer.size());
    if (n > 0) return static_cast<std::size_t>(n);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read the archive");
    if (thread_.joinable()) thread_.join();
    if (!outcome_) return tl::unexpected<Error>(outcome_.error());
    return std::size_t{0};
  }
}

Result<std::unique_ptr<UnpackPipe>> UnpackPipe::start(const std::string& directory) {
  COVE_TRY(auto ends, make_pipe());
  auto pipe = std::make_unique<UnpackPipe>();
  pipe->out_ = std::move(ends.first);
  pipe->in_ = std::move(ends.second);
  pipe->thread_ = std::thread([self = pipe.get(), directory] {
    const files::UnpackLimits limits{
        .max_bytes = kMaxUnpacked, .max_members = 10'000'000, .ratio = {.max_ratio = kAnyRatio}};
    const auto unpacked = files::unpack(self->out_.get(), directory, limits);
    if (unpacked)
      self->outcome_ = unpacked->files;
    else
      self->outcome_ = tl::unexpected<Error>(unpacked.error());
    self->out_.reset();
  });
  return pipe;
}

UnpackPipe::~UnpackPipe() {
  in_.reset();  // a truncated archive: the unpacker undoes what it had begun
  if (thread_.joinable()) thread_.join();
}

Result<> UnpackPipe::write(std::string_view bytes) {
  const auto written = write_all(in_.get(), bytes);
  if (written) return {};
  // The unpacker has failed; its error says why.
  in_.reset();
  if (thread_.joinable()) thread_.join();
  return tl::unexpected<Error>(outcome_ ? written.error() : outcome_.error());
}

Result<std::size_t> UnpackPipe::finish() {
  in_.reset();
  if (thread_.joinable()) thread_.join();
  return outcome_;
}

Result<FileInPlace> FileInPlace::create(const std::string& path, unsigned mode) {
  if (path == "-") return FileInPlace(UniqueFd(), "", "");
  struct stat st{};
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) {
    if (S_ISDIR(st.st_mode)) return fail(Errc::invalid, fmt::format("{} is a directory", path));
    COVE_TRY(auto fd, open_at(AT_FDCWD, path, O_WRONLY));
    return FileInPlace(std::move(fd), path, "");
  }
  auto temporary = fmt::format("{}.cove-{}", path, SandboxId::random().view().substr(0, 8));
  COVE_TRY(auto fd, open_at(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_EXCL, mode));
  return FileInPlace(std::move(fd), path, std::move(temporary));
}

FileInPlace::~FileInPlace() {
  if (fd_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<> FileInPlace::commit() {
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail_errno(errno, "write {}", path_);
  temporary_.clear();
  return {};
}

}  // namespace cove::cli
