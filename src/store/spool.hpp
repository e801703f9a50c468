#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::store {

// Files for content that no later server needs: each is deleted with the object that stands for it, and what a server
// left when it crashed is deleted by the next one. For one thread; the directory may hold other files.
class Spool {
 public:
  explicit Spool(UniqueFd directory, std::uint64_t reserve_bytes = 0)
      : directory_(std::make_shared<UniqueFd>(std::move(directory))), reserve_bytes_(reserve_bytes) {}

  // Disk space to leave free.
  void set_reserve(std::uint64_t bytes) { reserve_bytes_ = bytes; }
  // To be called once, at the start. Returns how many files were deleted.
  Result<std::size_t> sweep();

  // May outlive the spool. Open only while it is written to or read.
  class File {
   public:
    File(File&& other) noexcept = default;
    File& operator=(File&&) = delete;
    ~File();
    // Errc::over_limit with ENOSPC when the disk is full.
    Result<> append(std::string_view bytes);
    // No more is appended.
    void seal() { writer_.reset(); }
    [[nodiscard]] Result<std::string> read(std::uint64_t offset, std::size_t size) const;
    [[nodiscard]] std::uint64_t size() const { return size_; }

   private:
    friend class Spool;
    File(std::shared_ptr<UniqueFd> directory, std::string name, UniqueFd writer)
        : directory_(std::move(directory)), name_(std::move(name)), writer_(std::move(writer)) {}
    std::shared_ptr<UniqueFd> directory_;  // null when this was moved from
    std::string name_;
    UniqueFd writer_;
    std::uint64_t size_ = 0;
  };
  Result<File> create();
  // Whether so many more bytes leave the reserve free.
  [[nodiscard]] bool has_room(std::uint64_t more) const;

 private:
  std::shared_ptr<UniqueFd> directory_;
  std::uint64_t reserve_bytes_;
};

}  // namespace cove::store
