#include "store/file_store.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/io.hpp"
#include "base/random.hpp"
#include "base/units.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kDraft = ".draft-";
constexpr std::uint32_t kPage = 256;

// An error of the store itself: callers only distinguish a full disk, or a lack of descriptors, from the rest.
tl::unexpected<Error> io_error(int sys_errno, const char* what) {
  auto failed = fail_errno(sys_errno, "{}", what);
  if (failed.value().code != Errc::over_limit) failed.value().code = Errc::io;
  return failed;
}

Amount amount_of(const FileRow& row) {
  return {.count = 1, .bytes = row.size_bytes + row.name.size()};
}

}  // namespace

std::string new_uuid() {
  std::array<std::uint8_t, 16> bytes{};
  fill_random(std::as_writable_bytes(std::span(bytes)));
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3f) | 0x80);
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", bytes[i]);
  }
  return out;
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return text[14] == '4' && std::string_view("89ab").find(text[19]) != std::string_view::npos;
}

FileStore::Draft::~Draft() {
  if (!file_) return;
  store_->unlink(name_);
  store_->usage_.release(tenant_, {.count = 1, .bytes = charged_});
}

Result<> FileStore::Draft::append(std::string_view bytes) {
  COVE_CHECK(store_->check_room(tenant_, {.count = 0, .bytes = bytes.size()}));
  store_->usage_.charge(tenant_, {.count = 0, .bytes = bytes.size()});
  charged_ += bytes.size();
  if (const auto written = write_all(file_.get(), bytes); !written)
    return io_error(written.error().sys_errno, "write a file");
  hash_.add(bytes);
  size_ += bytes.size();
  return {};
}

bool FileStore::leaves_reserve(std::uint64_t more) const {
  struct statvfs disk{};
  if (options_.reserve_bytes == 0 || ::fstatvfs(directory_.get(), &disk) != 0) return true;
  const auto free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  return free >= options_.reserve_bytes && free - options_.reserve_bytes >= more;
}

tl::unexpected<Error> FileStore::refuse(const std::string& tenant, Bound bound) {
  ++refused_;
  const auto& bounds = options_.kept;
  const bool own = bound == Bound::tenant_count || bound == Bound::tenant_bytes;
  std::string why;
  switch (bound) {
    case Bound::tenant_count:
      why = fmt::format("This tenant keeps {} files, which is the limit (files.tenant_count)", bounds.tenant.count);
      break;
    case Bound::tenant_bytes:
      why = fmt::format("The files of this tenant would take more than {} (files.tenant_size)",
                        format_size(bounds.tenant.bytes));
      break;
    case Bound::all_count:
      why = fmt::format("{} files are kept here, which is the limit (files.max_total_count)", bounds.all.count);
      break;
    case Bound::all_bytes:
      why = fmt::format("The files that are kept here would take more than {} (files.max_total_size)",
                        format_size(bounds.all.bytes));
      break;
    case Bound::none:
      why = fmt::format("Less than {} of the disk would be left for the server itself (files.reserve)",
                        format_size(options_.reserve_bytes));
      break;
  }
  Error error{.code = Errc::over_limit, .message = std::move(why), .sys_errno = EDQUOT};
  if (const auto first = table_.first_time(own ? tenant : ""); first && *first)
    error.retry_after = std::chrono::milliseconds(std::max<std::int64_t>(**first - oldest(), 1));
  return tl::unexpected<Error>(std::move(error));
}

Result<> FileStore::check_room(const std::string& tenant, Amount more) {
  auto bound = usage_.passed(tenant, more, options_.kept);
  if (bound != Bound::none) {
    const bool own = bound == Bound::tenant_count || bound == Bound::tenant_bytes;
    expire_some(own ? tenant : "");
    bound = usage_.passed(tenant, more, options_.kept);
  }
  if (bound != Bound::none || !leaves_reserve(more.bytes)) return refuse(tenant, bound);
  return {};
}

Result<FileStore::Draft> FileStore::begin(std::string tenant) {
  COVE_CHECK(check_room(tenant, {.count = 1, .bytes = 0}));
  auto name = fmt::format("{}{:016x}", kDraft, random_number<std::uint64_t>());
  UniqueFd file(::openat(directory_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return io_error(errno, "make a file");
  usage_.charge(tenant, {.count = 1, .bytes = 0});
  return Draft(*this, std::move(tenant), std::move(name), std::move(file));
}

Result<FileRow> FileStore::keep(Draft draft, std::string name) {
  COVE_CHECK(check_room(draft.tenant_, {.count = 0, .bytes = name.size()}));
  FileRow row{.id = new_uuid(),
              .tenant = draft.tenant_,
              .name = std::move(name),
              .size_bytes = draft.size(),
              .uploaded_unix_ms = now_(),
              .sha256 = draft.hash_.hex()};
  // The content first: what is known of can then always be read. A crash between the two leaves what sweep() removes.
  if (::renameat(directory_.get(), draft.name_.c_str(), directory_.get(), row.id.c_str()) != 0)
    return io_error(errno, "name a file");
  draft.file_.reset();
  usage_.charge(row.tenant, {.count = 0, .bytes = row.name.size()});
  if (auto written = table_.insert(row); !written) {
    unlink(row.id);
    usage_.release(row.tenant, amount_of(row));
    return tl::unexpected<Error>(written.error());
  }
  return row;
}

Result<FileRow> FileStore::find(std::string_view tenant, std::string_view id) {
  const auto unknown = [] { return fail(Errc::not_found, "no such file"); };
  if (!is_uuid(id)) return unknown();
  COVE_TRY(auto row, table_.find(tenant, id));
  if (!row || row->uploaded_unix_ms <= oldest()) return unknown();
  return std::move(*row);
}

Result<UniqueFd> FileStore::open(const FileRow& row) const {
  UniqueFd file(::openat(directory_.get(), row.id.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return io_error(errno, "open a file");
  return file;
}

Result<> FileStore::remove(std::string_view tenant, std::string_view id) {
  COVE_TRY(const auto row, find(tenant, id));
  COVE_CHECK(table_.erase(row.id));
  if (pinned_.contains(row.id)) {
    doomed_.emplace(row.id, row);
    return {};
  }
  unlink(row.id);
  usage_.release(row.tenant, amount_of(row));
  return {};
}

Result<std::vector<FileRow>> FileStore::list(std::string_view tenant, std::int64_t after, std::uint32_t limit) {
  return table_.of(tenant, oldest(), after, limit);
}

FileStore::Pin::Pin(FileStore& store, std::string id) : store_(&store), id_(std::move(id)) {
  ++store.pinned_[id_];
}

FileStore::Pin::~Pin() {
  if (store_ != nullptr) store_->unpin(id_);
}

void FileStore::unpin(const std::string& id) {
  const auto found = pinned_.find(id);
  if (--found->second > 0) return;
  pinned_.erase(found);
  const auto doomed = doomed_.find(id);
  if (doomed == doomed_.end()) return;
  unlink(id);
  usage_.release(doomed->second.tenant, amount_of(doomed->second));
  doomed_.erase(doomed);
}

Result<bool> FileStore::expire_one(const FileRow& row) {
  if (pinned_.contains(row.id)) return false;
  COVE_CHECK(table_.erase(row.id));
  unlink(row.id);
  usage_.release(row.tenant, amount_of(row));
  return true;
}

void FileStore::expire_some(const std::string& tenant) {
  const auto until = oldest();
  // Asked for every refusal: the rows are read only when there is something to gain.
  if (const auto first = table_.first_time(tenant); !first || !*first || **first > until) return;
  const auto rows = tenant.empty() ? table_.all(0, kPage) : table_.of(tenant, INT64_MIN, 0, kPage);
  for (const auto& row : rows ? *rows : std::vector<FileRow>()) {
    if (row.uploaded_unix_ms > until || !expire_one(row)) return;
  }
}

Result<FileStore::Expired> FileStore::expire(std::int64_t after) {
  COVE_TRY(const auto rows, table_.older(oldest(), after, kPage));
  Expired expired;
  for (const auto& row : rows) {
    expired.next = row.seq;
    COVE_TRY(const bool gone, expire_one(row));
    expired.removed += gone ? 1 : 0;
  }
  return expired;
}

Result<std::size_t> FileStore::sweep() {
  std::size_t gone = 0;
  usage_ = {};
  std::set<std::string, std::less<>> known;
  for (std::int64_t after = 0;;) {
    COVE_TRY(const auto rows, table_.all(after, kPage));
    if (rows.empty()) break;
    for (const auto& row : rows) {
      after = row.seq;
      struct stat st{};
      // Of another size: it was being written when the power went.
      if (::fstatat(directory_.get(), row.id.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
          static_cast<std::uint64_t>(st.st_size) == row.size_bytes) {
        known.insert(row.id);
        usage_.charge(row.tenant, amount_of(row));
        continue;
      }
      COVE_CHECK(table_.erase(row.id));
      ++gone;
    }
  }
  const int copy = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy),
                                                    [](DIR* dir) { return ::closedir(dir); });
  if (!entries) return io_error(errno, "read the directory of files");
  while (const auto* entry = ::readdir(entries.get())) {
    const std::string name(entry->d_name);
    if (!name.starts_with(kDraft) && (!is_uuid(name) || known.contains(name))) continue;
    unlink(name);
    ++gone;
  }
  return gone;
}

// What cannot be removed now is found by the next sweep.
void FileStore::unlink(const std::string& name) const {
  ::unlinkat(directory_.get(), name.c_str(), 0);
}

}  // namespace cove::store
