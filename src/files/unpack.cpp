#include "files/unpack.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ranges>

#include "files/location.hpp"
#include "files/names.hpp"
#include "files/staging.hpp"
#include "files/tar_reader.hpp"

namespace cove::files {
namespace {

class Unpacking {
 public:
  Unpacking(int in_fd, Staging staging, const UnpackLimits& limits)
      : limits_(limits), reader_(in_fd, limits.ratio), staging_(std::move(staging)) {}

  Result<Unpacked> run() {
    while (true) {
      COVE_TRY(const auto member, reader_.next());
      if (!member) break;
      COVE_CHECK(take(*member));
    }
    COVE_CHECK(staging_.commit());
    return Unpacked{.files = staging_.files(), .bytes = bytes_};
  }

 private:
  Result<> take(const Member& member) {
    if (++members_ > limits_.max_members)
      return fail(Errc::over_limit, fmt::format("the archive has more than {} members", limits_.max_members));
    if (!limits_.absolute_names && member.name.starts_with('/'))
      return fail(Errc::invalid, fmt::format("member {} has an absolute path", shown(member.name)));
    COVE_TRY(const auto path, member_path(member.name, limits_.max_depth));
    switch (member.type) {
      case MemberType::directory:
        return staging_.add_directory(path, {.mode = member.mode, .mtime = member.mtime});
      case MemberType::symlink:
        return staging_.add_symlink(path, member.target, member.mtime);
      case MemberType::hard_link: {
        COVE_TRY(const auto target, member_path(member.target, limits_.max_depth));
        COVE_CHECK(staging_.add_hard_link(path, target));
        // Some dialects repeat the content here; it is the target's.
        while (true) {
          COVE_TRY(const auto block, reader_.data());
          if (!block) return {};
        }
      }
      case MemberType::file:
        break;
    }
    return take_file(path, member);
  }

  Result<> take_file(const std::string& path, const Member& member) {
    if (member.size > limits_.max_bytes - bytes_) {
      return fail(Errc::over_limit, fmt::format("with member {} the archive unpacks to more than {} bytes", shown(path),
                                                limits_.max_bytes));
    }
    bytes_ += member.size;
    COVE_TRY(const auto fd, staging_.add_file(path));
    std::uint64_t end = 0;
    while (true) {
      COVE_TRY(const auto block, reader_.data());
      if (!block) break;
      if (block->offset > member.size || block->bytes.size() > member.size - block->offset)
        return fail(Errc::invalid, fmt::format("member {} has more content than its size says", shown(path)));
      COVE_CHECK(write_at(fd.get(), path, *block));
      end = block->offset + block->bytes.size();
    }
    // A hole at the end has no block.
    if (end < member.size && ::ftruncate(fd.get(), static_cast<off_t>(member.size)) != 0)
      return fail_errno(errno, "write {}", shown(path));
    if (::fchmod(fd.get(), member.mode & 0777) != 0) return fail_errno(errno, "set the mode of {}", shown(path));
    return set_mtime(fd.get(), member.mtime);
  }

  static Result<> write_at(int fd, const std::string& path, const DataBlock& block) {
    auto rest = block.bytes;
    auto offset = static_cast<off_t>(block.offset);
    while (!rest.empty()) {
      const auto n = ::pwrite(fd, rest.data(), rest.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_errno(errno, "write {}", shown(path));
      rest = rest.subspan(static_cast<std::size_t>(n));
      offset += n;
    }
    return {};
  }

  UnpackLimits limits_;
  TarReader reader_;
  Staging staging_;
  std::size_t members_ = 0;
  std::uint64_t bytes_ = 0;
};

Result<Unpacked> unpack_into(int in_fd, int dest_fd, const std::string& dest, const UnpackLimits& limits) {
  auto staging = Staging::create(dest_fd, limits.max_members);
  if (!staging) return fail_errno(staging.error().sys_errno, "write into {}", shown(dest));
  return Unpacking(in_fd, std::move(*staging), limits).run();
}

}  // namespace

Result<Unpacked> unpack(int in_fd, const std::string& dest, const UnpackLimits& limits) {
  COVE_TRY(const auto made, make_directories(dest));
  auto unpacked = unpack_into(in_fd, made.dir.get(), dest, limits);
  if (!unpacked) {
    for (const auto& directory : std::views::reverse(made.created)) ::rmdir(directory.c_str());
  }
  return unpacked;
}

}  // namespace cove::files
