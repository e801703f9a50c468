#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

struct archive;

namespace cove::client {

// A gzip-compressed tar of regular files under names of the caller's choosing, in memory or in a file, as the NoxRunner
// client makes it: mode 0644, owner 0, no date, no directories.
class TarGz {
 public:
  // To a descriptor, which is borrowed.
  static Result<TarGz> to(int fd);
  TarGz(TarGz&&) noexcept = default;

  // `fd` is read to its end, which must come after `size` bytes.
  Result<> add(const std::string& name, int fd, std::uint64_t size);
  // Completes the archive.
  Result<> finish();

 private:
  struct Close {
    void operator()(struct archive* writer) const;
  };
  explicit TarGz(struct archive* writer) : writer_(writer) {}
  tl::unexpected<Error> failure() const;

  std::unique_ptr<struct archive, Close> writer_;
};

}  // namespace cove::client
