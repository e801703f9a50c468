#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/sha256.hpp"
#include "base/tenant_usage.hpp"
#include "base/unique_fd.hpp"
#include "store/store.hpp"

namespace cove::store {

// Files that tenants store for a while. Metadata is in the database; the content is in a file of the directory, named
// by its id, never by a client's name. For one thread; no call reads or writes more content than it is given. Beyond a
// bound it fails with Errc::over_limit, EDQUOT, and a message that names the setting and when the oldest file expires.
class FileStore {
 public:
  using Now = std::function<std::int64_t()>;  // milliseconds since 1970
  struct Options {
    std::chrono::milliseconds ttl{0};
    UsageBounds kept = {};            // of content and names, including files being written
    std::uint64_t reserve_bytes = 0;  // disk space to leave free
  };

  // Nobody else may use `directory`.
  FileStore(Store& store, UniqueFd directory, Options options, Now now = unix_millis)
      : table_(store.files()), directory_(std::move(directory)), options_(options), now_(std::move(now)) {}
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  // To be called once, at the start: deletes rows without content, content without a row and unfinished files, and
  // counts what every tenant has. Foreign files are left alone. Returns how many were deleted.
  Result<std::size_t> sweep();
  void set_options(Options options) { options_ = options; }

  // A file being written; deleted with this object unless it is kept.
  class Draft {
   public:
    Draft(FileStore& store, std::string tenant, std::string name, UniqueFd file)
        : store_(&store), tenant_(std::move(tenant)), name_(std::move(name)), file_(std::move(file)) {}
    Draft(Draft&& other) noexcept = default;
    Draft& operator=(Draft&&) = delete;
    ~Draft();
    // Errc::over_limit with ENOSPC when the disk is full, with EDQUOT when a bound is reached.
    Result<> append(std::string_view bytes);
    [[nodiscard]] std::uint64_t size() const { return size_; }

   private:
    friend class FileStore;
    FileStore* store_;
    std::string tenant_;
    std::string name_;
    UniqueFd file_;
    Sha256 hash_;
    std::uint64_t size_ = 0;
    std::uint64_t charged_ = 0;  // bytes
  };
  Result<Draft> begin(std::string tenant);
  Result<FileRow> keep(Draft draft, std::string name);

  // Errc::not_found for an id that is not this tenant's, or has expired.
  Result<FileRow> find(std::string_view tenant, std::string_view id);
  // Its content, for reading.
  Result<UniqueFd> open(const FileRow& row) const;
  Result<> remove(std::string_view tenant, std::string_view id);
  // By number, those after `after`.
  Result<std::vector<FileRow>> list(std::string_view tenant, std::int64_t after, std::uint32_t limit);

  // Keeps the content available: the file does not expire while pinned, and if removed, its content is deleted after.
  class Pin {
   public:
    Pin(FileStore& store, std::string id);
    Pin(Pin&& other) noexcept : store_(std::exchange(other.store_, nullptr)), id_(std::move(other.id_)) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin();

   private:
    FileStore* store_;
    std::string id_;
  };
  Pin pin(const FileRow& row) { return {*this, row.id}; }

  // Removes a batch of expired files after `after`, except for pinned ones. Nothing: there are no more.
  struct Expired {
    std::size_t removed = 0;
    std::optional<std::int64_t> next;
  };
  Result<Expired> expire(std::int64_t after);

  // What all tenants store, including files being written.
  [[nodiscard]] const Amount& kept() const { return usage_.all(); }
  // Files refused because of a bound, since the start.
  [[nodiscard]] const std::uint64_t& refused() const { return refused_; }

 private:
  [[nodiscard]] std::int64_t oldest() const { return now_() - options_.ttl.count(); }
  // Errc::over_limit with EDQUOT.
  Result<> check_room(const std::string& tenant, Amount more);
  tl::unexpected<Error> refuse(const std::string& tenant, Bound bound);
  [[nodiscard]] bool leaves_reserve(std::uint64_t more) const;
  // Removes some expired files of the tenant ("": of any), so that they do not count against a bound.
  void expire_some(const std::string& tenant);
  Result<bool> expire_one(const FileRow& row);
  void unlink(const std::string& name) const;
  void unpin(const std::string& id);

  FileTable& table_;
  UniqueFd directory_;
  Options options_;
  Now now_;
  std::map<std::string, std::size_t, std::less<>> pinned_;
  std::map<std::string, FileRow, std::less<>> doomed_;  // removed while pinned
  TenantUsage usage_;
  std::uint64_t refused_ = 0;
};

// "7d0c2c1e-4d0a-4a2e-9a57-3f1f5f0f3f55": version 4, from the kernel's randomness.
std::string new_uuid();
// Whether the text has the form of new_uuid().
bool is_uuid(std::string_view text);

}  // namespace cove::store
