#include "store/database.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace cove::store {
namespace {

constexpr std::chrono::milliseconds kMaxPause{10};

// The low byte is the kind of failure, the rest its detail.
int kind(int code) {
  return code & 0xff;
}

Errc errc_of_sqlite(int extended, int sys_errno) {
  if (sys_errno == ENOSPC || sys_errno == EDQUOT) return Errc::over_limit;
  switch (extended) {
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
      return Errc::exists;
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return Errc::not_found;
    default:
      break;
  }
  switch (kind(extended)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Errc::unavailable;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return Errc::denied;
    case SQLITE_CANTOPEN:
      return errc_of(sys_errno);
    default:
      return Errc::io;
  }
}

// How `broken` knows. A file system says the same of what it cannot read back.
constexpr int kBrokenErrno = EBADMSG;

Error error_of(sqlite3* handle) {
  const int code = sqlite3_extended_errcode(handle);
  int sys_errno = 0;
  switch (kind(code)) {
    case SQLITE_FULL:
      sys_errno = ENOSPC;
      break;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      sys_errno = sqlite3_system_errno(handle);
      break;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      sys_errno = kBrokenErrno;
      break;
    default:
      break;
  }
  if (sys_errno == EDQUOT) sys_errno = ENOSPC;
  const auto why = sys_errno == ENOSPC                               ? "no space left on the disk"
                   : kind(code) == SQLITE_CANTOPEN && sys_errno != 0 ? std::strerror(sys_errno)
                   : kind(code) == SQLITE_BUSY ? "another program holds it: end that one, or try again"
                                               : sqlite3_errmsg(handle);
  return {.code = errc_of_sqlite(code, sys_errno), .message = fmt::format("database: {}", why), .sys_errno = sys_errno};
}

bool is_busy(int code) {
  return kind(code) == SQLITE_BUSY || kind(code) == SQLITE_LOCKED;
}

}  // namespace

// Every transaction of ours is short, here and in `cove key` beside a server: who waits long waits for a program that
// was stopped in the middle of one, or for somebody else's.
class Database::Waiting {
 public:
  using Clock = std::chrono::steady_clock;

  void set(Patience patience) { patience_ = patience; }
  void start() {
    const auto now = Clock::now();
    until_ = now < resting_until_ ? now : now + patience_.patience;
  }
  // Sleeps a moment, if there is one left.
  bool wait(std::chrono::milliseconds pause) {
    const auto now = Clock::now();
    if (now >= until_) return false;
    std::this_thread::sleep_until(std::min(now + pause, until_));
    return true;
  }
  void give_up() {
    const auto now = Clock::now();
    if (now >= resting_until_) resting_until_ = now + patience_.rest;
  }

  // SQLite asks before each further attempt; `count` is how many it has made.
  static int ask(void* self, int count) {
    return static_cast<Waiting*>(self)->wait(std::min(std::chrono::milliseconds(count + 1), kMaxPause)) ? 1 : 0;
  }

 private:
  Patience patience_;
  Clock::time_point until_;
  Clock::time_point resting_until_;
};

void Database::set_patience(Patience patience) {
  waiting_->set(patience);
}

void Database::start_waiting() {
  waiting_->start();
}

// Where SQLite does not ask (the change to WAL, the recovery of a log, the last one to close the file) it is called
// again, by us.
bool Database::goes_on(int code) {
  if (!is_busy(code)) return false;
  if (waiting_->wait(std::chrono::milliseconds(2))) return true;
  waiting_->give_up();
  return false;
}

bool broken(const Error& error) {
  return error.sys_errno == kBrokenErrno;
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Result<Database> Database::open(const std::string& path) {
  Database database;
  database.waiting_ = std::make_shared<Waiting>();
  sqlite3* handle = nullptr;
  const int opened = sqlite3_open_v2(
      path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  database.handle_.reset(handle);
  if (handle == nullptr) return fail(Errc::io, "database: out of memory");
  if (opened != SQLITE_OK) {
    auto error = error_of(handle);
    error.message = fmt::format("open {}: {}", path, error.message);
    return tl::unexpected<Error>(std::move(error));
  }
  sqlite3_busy_handler(handle, Waiting::ask, database.waiting_.get());
  // A file that someone else may have written cannot make us run what it brings along.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // NORMAL in WAL mode: no fsync at a commit, yet what was committed survives our own death. The limit gives back the
  // space of a log that a burst has grown.
  COVE_CHECK(
      database.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;"
                   "PRAGMA journal_size_limit = 4194304; PRAGMA temp_store = MEMORY"));
  return database;
}

Result<> Database::run(const char* sql) {
  const auto exec = [&] { return sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr); };
  if (patiently(exec) == SQLITE_OK) return {};
  return tl::unexpected<Error>(error());
}

Result<std::int64_t> Database::number(const char* sql) {
  Statement statement(*this, sql);
  std::int64_t value = 0;
  COVE_CHECK(statement.each([&](const Row& row) { value = row.number(0); }));
  return value;
}

std::int64_t Database::last_row_id() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

std::int64_t Database::changes() const {
  return sqlite3_changes64(handle_.get());
}

Error Database::error() const {
  return error_of(handle_.get());
}

void Row::get(int column, std::string& out) const {
  const auto* text = sqlite3_column_text(statement_, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  // A null column has no text.
  if (text == nullptr)
    out.clear();
  else
    out.assign(reinterpret_cast<const char*>(text), size);
}

bool Row::null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::int64_t Row::number(int column) const {
  return sqlite3_column_int64(statement_, column);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement::Statement(Database& database, std::string sql) : database_(database), sql_(std::move(sql)) {}

Result<> Statement::begin() {
  if (statement_) return {};
  sqlite3_stmt* prepared = nullptr;
  const auto prepare = [&] {
    return sqlite3_prepare_v3(database_.handle(), sql_.data(), static_cast<int>(sql_.size()), SQLITE_PREPARE_PERSISTENT,
                              &prepared, nullptr);
  };
  if (database_.patiently(prepare) != SQLITE_OK) return tl::unexpected<Error>(database_.error());
  statement_.reset(prepared);
  return {};
}

Result<bool> Statement::step() {
  // One that has given a row is never busy: to begin again repeats nothing.
  const int stepped = database_.patiently([&] {
    const int code = sqlite3_step(statement_.get());
    if (is_busy(code)) sqlite3_reset(statement_.get());
    return code;
  });
  if (stepped == SQLITE_ROW) return true;
  if (stepped == SQLITE_DONE) {
    finish();
    return false;
  }
  auto error = database_.error();
  finish();
  return tl::unexpected<Error>(std::move(error));
}

void Statement::finish() {
  // Its answer is the failure that was reported already.
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

Result<> Statement::bind(int at, std::string_view text) {
  // The values outlive the run; a null pointer would bind NULL.
  const char* data = text.data() == nullptr ? "" : text.data();
  if (sqlite3_bind_text64(statement_.get(), at, data, text.size(), SQLITE_STATIC, SQLITE_UTF8) == SQLITE_OK) return {};
  return tl::unexpected<Error>(database_.error());
}

Result<> Statement::bind_number(int at, std::int64_t value) {
  if (sqlite3_bind_int64(statement_.get(), at, value) == SQLITE_OK) return {};
  return tl::unexpected<Error>(database_.error());
}

Result<> Statement::bind_null(int at) {
  if (sqlite3_bind_null(statement_.get(), at) == SQLITE_OK) return {};
  return tl::unexpected<Error>(database_.error());
}

}  // namespace cove::store
