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

// Packs a local directory into an archive while it is read. No special files, and no links that lead out of it.
class PackPipe {
 public:
  // `directory` is absolute. Without directories the archive has only files and the links to files.
  enum class Directories { with, without };
  static Result<std::unique_ptr<PackPipe>> start(const std::string& directory,
                                                 Directories directories = Directories::with);
  ~PackPipe();
  // At the end, fails if the packing did.
  Result<std::size_t> read(std::span<char> buffer);

 private:
  UniqueFd out_;
  UniqueFd in_;
  Result<> outcome_;
  std::thread thread_;
};

// Unpacks an archive into a local directory while it arrives: never outside of it, no special files, and nothing at all
// of an archive that is cut off.
class UnpackPipe {
 public:
  static Result<std::unique_ptr<UnpackPipe>> start(const std::string& directory);  // absolute; made if missing
  ~UnpackPipe();
  Result<> write(std::string_view bytes);
  // To be called when the archive is complete. Returns the number of files.
  Result<std::size_t> finish();

 private:
  UniqueFd out_;
  UniqueFd in_;
  Result<std::size_t> outcome_ = fail(Errc::io, "not unpacked");
  std::thread thread_;
};

// Writes a file beside its final name, and renames it when it is complete. Something that exists and is not a regular
// file (a FIFO, /dev/null) is written to directly; "-" is standard output.
class FileInPlace {
 public:
  static Result<FileInPlace> create(const std::string& path, unsigned mode = 0666);
  FileInPlace(FileInPlace&&) noexcept = default;
  ~FileInPlace();
  [[nodiscard]] int fd() const { return fd_ ? fd_.get() : STDOUT_FILENO; }
  Result<> commit();

 private:
  FileInPlace(UniqueFd fd, std::string path, std::string temporary)
      : fd_(std::move(fd)), path_(std::move(path)), temporary_(std::move(temporary)) {}
  UniqueFd fd_;
  std::string path_;
  std::string temporary_;
};

}  // namespace cove::cli
