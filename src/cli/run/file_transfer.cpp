#include "cli/run/file_transfer.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "base/io.hpp"
#include "files/unpack.hpp"
#include "guest/environment.hpp"

namespace cove::cli {
namespace {

namespace protocol = guest::file_protocol;
using wire::FileVerb;

constexpr std::chrono::minutes kCopyTimeout{2};  // for one result, which nobody inside may draw out for ever
constexpr std::uint64_t kNoLimit = UINT64_MAX / 4;
constexpr std::uint64_t kMaxRatio = 2000;  // of an archive's content to its size; deflate does not do more

Result<> ask(OneShot& shot, protocol::Command command, int input_fd = -1) {
  Feed feed{.input_fd = input_fd};
  COVE_CHECK(run_file_helper(shot, std::move(command), feed, std::nullopt));
  return {};
}

Result<> put_link(OneShot& shot, int dir, const std::string& name, const std::string& path) {
  std::array<char, 4096> target;
  const auto size = ::readlinkat(dir, name.c_str(), target.data(), target.size());
  if (size < 0) return fail_errno(errno, "read link {}", name);
  auto command = protocol::command(FileVerb::link, path);
  protocol::add(command, std::string_view(target.data(), static_cast<std::size_t>(size)));
  return ask(shot, std::move(command));
}

// Everything is opened relative to its directory's descriptor, so nothing can be swapped in on the way.
enum class Links { follow, keep };
Result<> put_entry(OneShot& shot, int dir, const std::string& name, const std::string& path, Links links) {
  const int flags = O_RDONLY | O_NONBLOCK | (links == Links::keep ? O_NOFOLLOW : 0);  // a FIFO must not hold us up
  auto fd = open_at(dir, name, flags);
  if (!fd && fd.error().sys_errno == ELOOP && links == Links::keep) return put_link(shot, dir, name, path);
  if (!fd) return tl::unexpected<Error>(fd.error());
  struct stat st{};
  if (::fstat(fd->get(), &st) != 0) return fail_errno(errno, "stat {}", name);
  if (S_ISREG(st.st_mode)) return put_file(shot, fd->get(), path, (st.st_mode & 0111) != 0 ? 0755 : 0644);
  if (!S_ISDIR(st.st_mode)) return fail(Errc::invalid, "neither a file nor a directory");
  COVE_CHECK(ask(shot, protocol::command(FileVerb::mkdir, path)));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd->get()), [](DIR* d) { return ::closedir(d); });
  if (!entries) return fail_errno(errno, "read directory {}", name);
  const int here = fd->release();  // closedir() closes it
  while (const auto* entry = ::readdir(entries.get())) {
    const std::string_view inside = entry->d_name;
    if (inside == "." || inside == "..") continue;
    COVE_CHECK(put_entry(shot, here, entry->d_name, fmt::format("{}/{}", path, inside), Links::keep));
  }
  return {};
}

// Whether a result must be written into what is there, a FIFO or a device, rather than put in its place.
bool is_special(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode);
}

std::string beside(const std::string& path) {
  return path + ".cove-" + std::string(SandboxId::random().view().substr(0, 8));
}

// The content of a file goes to `fd`, without the line before it that describes the file.
Result<std::uint64_t> read_into(OneShot& shot, const HostFile& file, int fd, std::uint64_t max_bytes) {
  Feed feed;
  feed.out.fd = fd;
  feed.out.skips_line = true;
  auto command = protocol::command(FileVerb::read, file.sandbox_path);
  command.push_back("0");
  command.push_back(std::to_string(max_bytes + 1));
  const auto end = run_file_helper(shot, std::move(command), feed, kCopyTimeout);
  if (feed.out.broken) return fail(Errc::io, fmt::format("write {}: its reader left or it is full", file.host_path));
  if (!end) return tl::unexpected<Error>(end.error());
  const auto size = end->exited->out_bytes - feed.out.skipped;
  if (size > max_bytes) return fail(Errc::over_limit, "larger than the sandbox's whole disk");
  return size;
}

Result<bool> is_directory(OneShot& shot, const std::string& path) {
  Feed feed;
  COVE_CHECK(run_file_helper(shot, protocol::command(FileVerb::stat, path), feed, kCopyTimeout));
  boost::system::error_code failed;
  const auto entry = boost::json::parse(feed.out.captured, failed);
  const auto* type = failed || !entry.is_object() ? nullptr : entry.as_object().if_contains("type");
  return type != nullptr && *type == "directory";
}

// Whatever modes the program gave: no more than our caller's umask allows.
void apply_umask(const std::string& directory) {
  namespace fs = std::filesystem;
  const auto mask = ::umask(0);
  ::umask(mask);
  std::error_code failed;
  const auto walk = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(directory, walk, failed), end; !failed && at != end; at.increment(failed)) {
    const auto& entry = *at;
    if (entry.is_symlink(failed)) continue;
    const auto allowed = entry.status(failed).permissions() & static_cast<fs::perms>(~mask & 0777U);
    fs::permissions(entry.path(), allowed, failed);
  }
}

// A directory comes out as an archive, which is unpacked beside its target and then takes its place.
Result<std::uint64_t> get_directory(OneShot& shot, const HostFile& file, std::uint64_t max_bytes) {
  UniqueFd archive(::memfd_create("archive", MFD_CLOEXEC));
  if (!archive) return fail_errno(errno, "memfd_create");
  Feed feed;
  feed.out.fd = archive.get();
  COVE_CHECK(run_file_helper(shot, protocol::command(FileVerb::download, file.sandbox_path), feed, kCopyTimeout));
  if (::lseek(archive.get(), 0, SEEK_SET) != 0) return fail_errno(errno, "seek");
  const auto target = std::filesystem::absolute(file.host_path).lexically_normal().string();
  const auto aside = beside(target);
  const auto unpacked =
      files::unpack(archive.get(), aside, {.max_bytes = max_bytes, .ratio = {.max_ratio = kMaxRatio}});
  std::error_code ignored;
  if (!unpacked) {
    std::filesystem::remove_all(aside, ignored);
    return tl::unexpected<Error>(unpacked.error());
  }
  apply_umask(aside);
  if (::rename(aside.c_str(), target.c_str()) != 0) {
    const auto failed = fail_errno(errno, "write {}", file.host_path);
    std::filesystem::remove_all(aside, ignored);
    return failed;
  }
  return unpacked->bytes;
}

}  // namespace

Result<ProcessEnd> run_file_helper(OneShot& shot, protocol::Command command, Feed& feed,
                                   std::optional<std::chrono::milliseconds> timeout) {
  command.insert(command.begin(), std::string(wire::kFilesProgram));
  const wire::Spawn spawn{.output_limit = {.bytes = kNoLimit},
                          .directory = "/",
                          .argv = std::move(command),
                          .environment = guest::base_environment()};
  COVE_TRY(const auto end, shot.run(spawn, feed, timeout));
  if (end.exited && end.exited->exit_code == 0) return end;
  if (!end.exited) return fail(Errc::io, "the sandbox ended");
  if (auto error = protocol::decode_error(feed.err.captured)) return tl::unexpected<Error>(std::move(*error));
  return fail(Errc::io, "the sandbox's file helper was killed: by a limit of the sandbox, or because it took too long");
}

Result<> put_file(OneShot& shot, int input_fd, const std::string& path, std::uint32_t mode) {
  auto command = protocol::command(FileVerb::write, path);
  protocol::add_mode(command, mode);
  return ask(shot, std::move(command), input_fd);
}

Result<> put_tree(OneShot& shot, const HostFile& file) {
  return put_entry(shot, AT_FDCWD, file.host_path, file.sandbox_path, Links::follow);
}

Result<std::uint64_t> get_file(OneShot& shot, const HostFile& file, std::uint64_t max_bytes) {
  const bool special = is_special(file.host_path);
  const auto aside = special ? file.host_path : beside(file.host_path);
  COVE_TRY(const auto fd,
           open_at(AT_FDCWD, aside, special ? O_WRONLY | O_NONBLOCK : O_WRONLY | O_CREAT | O_EXCL, 0666));
  auto size = read_into(shot, file, fd.get(), max_bytes);
  if (special) return size;
  if (size && ::rename(aside.c_str(), file.host_path.c_str()) != 0)
    size = fail_errno(errno, "write {}", file.host_path);
  if (!size) ::unlink(aside.c_str());
  return size;
}

Result<std::uint64_t> get_tree(OneShot& shot, const HostFile& file, std::uint64_t max_bytes) {
  auto size = get_file(shot, file, max_bytes);
  // There is a directory at one end, or at both.
  if (size || (size.error().code != Errc::invalid && size.error().sys_errno != EISDIR)) return size;
  const auto directory = is_directory(shot, file.sandbox_path);
  return directory && *directory ? get_directory(shot, file, max_bytes) : size;
}

}  // namespace cove::cli
