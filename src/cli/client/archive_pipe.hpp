#pragma once

#include <unistd.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::cli {

// A directory of this machine as an archive that is packed while it is read. No special files, no links that lead out.
class PackPipe {
 public:
  static Result<std::unique_ptr<PackPipe>> start(const std::string& directory);  // absolute
  ~PackPipe();
  // At the end it is known whether the packing went well.
  Result<std::size_t> read(std::span<char> room);

 private:
  UniqueFd out_;
  UniqueFd in_;
  Result<> outcome_;
  std::thread thread_;
};

// An archive that is unpacked into a directory of this machine while it arrives: never outside of it, no special files,
// and nothing at all of an archive that breaks off.
class UnpackPipe {
 public:
  static Result<std::unique_ptr<UnpackPipe>> start(const std::string& directory);  // absolute; made if missing
  ~UnpackPipe();
  Result<> write(std::string_view bytes);
  // The archive is complete. How many files there were.
  Result<std::size_t> finish();

 private:
  UniqueFd out_;
  UniqueFd in_;
  Result<std::size_t> outcome_ = fail(Errc::io, "not unpacked");
  std::thread thread_;
};

// A file that takes its name when it is whole: written beside it first. What is there already and is no regular file
// (a FIFO, /dev/null) is written into; "-" is standard output.
class FileInPlace {
 public:
  static Result<FileInPlace> create(const std::string& path, unsigned mode = 0666);
  FileInPlace(FileInPlace&&) noexcept = default;
  ~FileInPlace();
  [[nodiscard]] int fd() const { return fd_ ? fd_.get() : STDOUT_FILENO; }
  Result<> commit();

 private:
  FileInPlace(UniqueFd fd, std::string path, std::string aside)
      : fd_(std::move(fd)), path_(std::move(path)), aside_(std::move(aside)) {}
  UniqueFd fd_;
  std::string path_;
  std::string aside_;
};

}  // namespace cove::cli
