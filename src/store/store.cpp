#include "store/store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "base/io.hpp"
#include "store/schema.hpp"

namespace cove::store {
namespace {

constexpr const char* kBroken = ".broken-";

// Looked at by name: closing a descriptor of it would drop the locks that SQLite holds.
Result<> check_file(int dir_fd, const std::string& path) {
  struct stat file{};
  if (::fstatat(dir_fd, kDatabaseFile, &file, AT_SYMLINK_NOFOLLOW) != 0) return fail_errno(errno, "stat {}", path);
  if (!S_ISREG(file.st_mode)) return fail(Errc::denied, fmt::format("{} is not a regular file; remove it", path));
  if ((file.st_mode & 0077) != 0)
    return fail(Errc::denied,
                fmt::format("{} is readable by others; run chmod 600 on it and on the files beside it", path));
  return {};
}

// SQLite makes the files beside it with the mode and, as root, the owner of this one.
Result<> make_file(int dir_fd, const std::string& path) {
  UniqueFd made(::openat(dir_fd, kDatabaseFile, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!made) {
    if (errno == EEXIST) return check_file(dir_fd, path);
    return fail_errno(errno, "make {}", path);
  }
  struct stat dir{};
  if (::fstat(dir_fd, &dir) != 0) return fail_errno(errno, "stat the directory of {}", path);
  if (::geteuid() == 0 && dir.st_uid != 0 && ::fchown(made.get(), dir.st_uid, dir.st_gid) != 0)
    return fail_errno(errno, "give {} to the owner of its directory", path);
  return {};
}

// We make tables and indexes alone. What else is there was put there by somebody else: a view under the name of a table
// may answer with anything, and never end.
Result<> check_schema(Database& database) {
  COVE_TRY(const auto foreign,
           database.number("SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index')"));
  if (foreign != 0)
    return tl::unexpected<Error>(
        Error{Errc::io, "database: it has views or triggers that Cove did not create", EBADMSG});
  return {};
}

Result<Database> open_checked(int dir_fd, const std::string& path) {
  COVE_CHECK(make_file(dir_fd, path));
  COVE_TRY(auto database, Database::open(path));
  COVE_CHECK(check_schema(database));
  COVE_CHECK(migrate(database));
  return database;
}

Result<> check(Database& database) {
  std::string found;
  Statement statement(database, "PRAGMA quick_check(1)");
  COVE_CHECK(statement.each([&](const Row& row) { row.get(0, found); }));
  if (found != "ok")
    return tl::unexpected<Error>(Error{Errc::io, fmt::format("database: damaged: {}", found), EBADMSG});
  return {};
}

Result<std::string> move_aside(int dir_fd, const std::string& path, const std::string& why) {
  const auto suffix = fmt::format("{}{}", kBroken, std::time(nullptr));
  for (const auto* part : {"-wal", "-shm", ""}) {
    const auto from = std::string(kDatabaseFile) + part;
    const auto to = std::string(kDatabaseFile) + suffix + part;
    if (::renameat(dir_fd, from.c_str(), dir_fd, to.c_str()) != 0 && errno != ENOENT)
      return fail_errno(errno, "move the broken {} aside", path);
  }
  return fmt::format(
      "{} could not be used ({}); it was kept as {}{} and an empty one begun: sandboxes and keys that were in it are "
      "forgotten",
      path, why, path, suffix);
}

struct SecretColumn {
  const char* table;
  const char* column;
};
constexpr SecretColumn kCallbackSecrets{.table = "callbacks", .column = "secret"};
constexpr SecretColumn kExecutionSecrets{.table = "executions", .column = "callback_secret"};

// Earlier servers wrote them as they are. What they leave behind in free pages and in the log is overwritten.
Result<> seal_plain(Database& database, SecretBox& secrets, SecretColumn place) {
  std::vector<std::pair<std::string, std::string>> found;
  Statement plain(database, fmt::format("SELECT id, {0} FROM {1} WHERE {0} != '' AND substr({0}, 1, 7) != 'sealed:'",
                                        place.column, place.table));
  COVE_CHECK(plain.each([&](const Row& row) {
    auto& [id, secret] = found.emplace_back();
    row.read(std::tie(id, secret));
  }));
  if (found.empty()) return {};
  COVE_CHECK(database.run("PRAGMA secure_delete = ON"));
  Statement update(database, fmt::format("UPDATE {} SET {} = ? WHERE id = ?", place.table, place.column));
  COVE_CHECK(database.together([&]() -> Result<> {
    for (const auto& [id, secret] : found) {
      COVE_TRY(const auto sealed, secrets.seal(id, secret));
      COVE_CHECK(update.run(sealed, id));
    }
    return {};
  }));
  return database.run("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA secure_delete = OFF");
}

bool broken_ones_in(const std::string& dir) {
  std::error_code ec;
  for (std::filesystem::directory_iterator entry(dir, ec), end; !ec && entry != end; entry.increment(ec)) {
    if (entry->path().filename().string().starts_with(std::string(kDatabaseFile) + kBroken)) return true;
  }
  return false;
}

}  // namespace

Store::Store(Database database, std::string dir)
    : database_(std::move(database)),
      sandboxes_(database_),
      processes_(database_),
      events_(database_),
      idempotency_(database_),
      keys_(database_),
      files_(database_),
      executions_(database_),
      callbacks_(database_),
      templates_(database_),
      notebooks_(database_),
      activity_(database_),
      tool_servers_(database_),
      secrets_(std::move(dir)) {}

Result<std::unique_ptr<Store>> Store::open(const std::string& dir, OnBroken on_broken) {
  COVE_TRY(const auto dir_fd, open_at(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY));
  const auto path = dir + "/" + kDatabaseFile;
  const auto attempt = [&]() -> Result<Database> {
    COVE_TRY(auto database, open_checked(dir_fd.get(), path));
    // Only the server pays for a look at every page.
    if (on_broken == OnBroken::move_aside) COVE_CHECK(check(database));
    return database;
  };
  auto database = attempt();
  std::string warning;
  if (!database && broken(database.error())) {
    if (on_broken == OnBroken::refuse)
      return fail(Errc::io, fmt::format("{} is no database, or damaged ({}); a server that is started moves it aside",
                                        path, database.error().message));
    COVE_TRY(warning, move_aside(dir_fd.get(), path, database.error().message));
    database = attempt();
  }
  if (!database) return tl::unexpected<Error>(database.error());
  auto store = std::make_unique<Store>(std::move(*database), dir);
  if (on_broken == OnBroken::move_aside) {
    for (const auto& place : {kCallbackSecrets, kExecutionSecrets})
      COVE_CHECK(seal_plain(store->database_, store->secrets_, place));
  }
  store->warning_ = std::move(warning);
  store->keys_may_be_lost_ = broken_ones_in(dir);
  return store;
}

Result<std::int64_t> Store::data_version() {
  return database_.number("PRAGMA data_version");
}

}  // namespace cove::store
