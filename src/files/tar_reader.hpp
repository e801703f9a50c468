#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "files/plain_stream.hpp"

struct archive;
struct archive_entry;

namespace cove::files {

enum class MemberType { file, directory, symlink, hard_link };

struct Member {
  MemberType type = MemberType::file;
  std::string name;    // as the archive has it
  std::string target;  // of links, as the archive has it
  std::uint32_t mode = 0;
  std::time_t mtime = 0;
  std::uint64_t size = 0;  // logical: holes count
};

struct DataBlock {
  std::span<const char> bytes;  // valid until the next call
  std::uint64_t offset = 0;     // holes lie between blocks
};

// The members of a tar of any dialect, from a descriptor, plain or in gzip. What it does not pass on: devices, FIFOs,
// sockets, contiguous files, volumes and types unknown to it are Errc::invalid, as is a tar without its end.
class TarReader {
 public:
  TarReader(int fd, RatioLimit ratio);
  ~TarReader();
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;

  // None at the end, which has then been read and checked.
  Result<std::optional<Member>> next();
  // Of the last member; none at its end.
  Result<std::optional<DataBlock>> data();

 private:
  struct Close {
    void operator()(struct archive* reader) const;
  };

  static std::ptrdiff_t feed(struct archive* reader, void* self, const void** bytes);
  tl::unexpected<Error> failure();
  Result<> check_raw_header();
  Result<> check_end();
  void forget_read();

  PlainStream stream_;
  std::optional<Error> stream_error_;
  std::unique_ptr<struct archive, Close> reader_;
  bool opened_ = false;
  std::string window_;              // the bytes of the tar from window_begin_ on
  std::uint64_t window_begin_ = 0;  // everything before has been read by libarchive
  std::string current_;             // for messages
};

}  // namespace cove::files
