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
#include "base/unique_fd.hpp"
#include "store/store.hpp"

namespace cove::store {

// Files that tenants keep for a while: what is known of them is in the database, the content of each in a file of the
// directory, named by its id. Names of clients never become names of files. Used by one thread; no call reads or writes
// more content than it is handed.
class FileStore {
 public:
  using Now = std::function<std::int64_t()>;  // milliseconds since 1970

  // `directory` is ours alone.
  FileStore(Store& store, UniqueFd directory, std::chrono::milliseconds ttl, Now now = unix_millis)
      : table_(store.files()), directory_(std::move(directory)), ttl_(ttl), now_(std::move(now)) {}
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  // At the start, when nobody uses it: forgets rows without their content, removes content without its row and whatever
  // was never finished. Files it did not name are left alone. How many went.
  Result<std::size_t> sweep();
  void set_ttl(std::chrono::milliseconds ttl) { ttl_ = ttl; }

  // One that is being written; gone with this object unless it is kept.
  class Draft {
   public:
    Draft(FileStore& store, std::string name, UniqueFd file)
        : store_(&store), name_(std::move(name)), file_(std::move(file)) {}
    Draft(Draft&& other) noexcept = default;
    Draft& operator=(Draft&&) = delete;
    ~Draft();
    // Errc::over_limit with ENOSPC when the disk is full.
    Result<> append(std::string_view bytes);
    [[nodiscard]] std::uint64_t size() const { return size_; }

   private:
    friend class FileStore;
    FileStore* store_;
    std::string name_;
    UniqueFd file_;
    Sha256 hash_;
    std::uint64_t size_ = 0;
  };
  Result<Draft> begin();
  Result<FileRow> keep(Draft draft, std::string tenant, std::string name);

  // Errc::not_found for an id that this store did not give to this tenant, or whose time is over.
  Result<FileRow> find(std::string_view tenant, std::string_view id);
  // Its content, for reading.
  Result<UniqueFd> open(const FileRow& row) const;
  Result<> remove(std::string_view tenant, std::string_view id);
  // By number, those after `after`.
  Result<std::vector<FileRow>> list(std::string_view tenant, std::int64_t after, std::uint32_t limit);

  // While it lives, the content stays where it is: the file does not expire, and removed it goes only afterwards.
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

  // Removes some of those whose time is over, from `after` on, but none that is pinned. Nothing: there are no more.
  struct Expired {
    std::size_t removed = 0;
    std::optional<std::int64_t> next;
  };
  Result<Expired> expire(std::int64_t after);

 private:
  [[nodiscard]] std::int64_t oldest() const { return now_() - ttl_.count(); }
  void unlink(const std::string& name) const;
  void unpin(const std::string& id);

  FileTable& table_;
  UniqueFd directory_;
  std::chrono::milliseconds ttl_;
  Now now_;
  std::map<std::string, std::size_t, std::less<>> pinned_;
  std::set<std::string, std::less<>> doomed_;  // removed while pinned
};

// "7d0c2c1e-4d0a-4a2e-9a57-3f1f5f0f3f55": version 4, from the kernel's randomness.
std::string new_uuid();
// Whether it is written as new_uuid() writes them.
bool is_uuid(std::string_view text);

}  // namespace cove::store
