// Any bytes as an archive: unpacked or refused, but nothing lands outside the destination, nothing is left of a refused
// one, and no special file or setuid bit comes out. Half of the runs put right the checksums of the tar's headers, or
// hardly any input would come past them.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/io.hpp"
#include "files/names.hpp"
#include "files/tree.hpp"
#include "files/unpack.hpp"
#include "files/walk.hpp"

namespace {

using namespace cove;
using namespace cove::files;

constexpr std::size_t kBlock = 512;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

// Lives until the process ends: atexit() runs after the destructors of what was made later.
const std::string& arena() {
  static const auto* path = [] {
    auto* name = new std::string("/dev/shm/cove-archive-fuzz-XXXXXX");
    if (::mkdtemp(name->data()) == nullptr) give_up("no directory to work in");
    std::atexit([] { static_cast<void>(remove_tree(AT_FDCWD, arena()).has_value()); });
    return name;
  }();
  return *path;
}

std::string with_checksums(std::string bytes) {
  for (std::size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    if (bytes.compare(at + 257, 5, "ustar") != 0) continue;
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i)
      sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(bytes[at + i]);
    std::snprintf(&bytes[at + 148], 8, "%06o", sum);
  }
  return bytes;
}

void check_result(const std::string& dest) {
  const auto listing = list_tree(dest, 100, 10'000);
  if (!listing) give_up("the destination cannot be read");
  for (const auto& entry : listing->entries) {
    if (entry.type == "other") give_up("a special file came out: " + entry.path);
    if ((entry.mode & 07000) != 0) give_up("a special mode came out: " + entry.path);
    if (entry.path.find(".cove-upload-") != std::string::npos) give_up("staging was left: " + entry.path);
    if (entry.type == "symlink" && !link_stays_inside(entry.path.substr(dest.size() + 1), entry.target))
      give_up("a link leads out: " + entry.path);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0) bytes = with_checksums(std::move(bytes));
  static const UniqueFd stream(::memfd_create("archive", MFD_CLOEXEC));
  if (::ftruncate(stream.get(), 0) != 0 || ::lseek(stream.get(), 0, SEEK_SET) != 0) give_up("no stream");
  if (!write_all(stream.get(), bytes) || ::lseek(stream.get(), 0, SEEK_SET) != 0) give_up("no stream");

  const auto dest = arena() + "/a/dest";
  const UnpackLimits limits{
      .max_bytes = 1U << 20, .max_members = 100, .max_depth = 20, .ratio = {.max_ratio = 50, .floor_bytes = 1U << 20}};
  const auto unpacked = unpack(stream.get(), dest, limits);
  const auto above = list_tree(arena(), 2, 10);
  if (!above || above->entries.size() != (unpacked ? 2 : 0)) give_up("something is where nothing should be");
  if (unpacked) check_result(dest);
  static_cast<void>(remove_path(arena() + "/a", Recursive::yes).has_value());
  return 0;
}
