#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace cove::store {

// One SQLite connection, for one thread. The only file that talks to SQLite is database.cpp. Errors everywhere in this
// room: `over_limit` with ENOSPC when the disk is full, `exists` for a key that is taken, `denied` for a file that may
// not be opened, `unavailable` when another process held the database for too long, `io` otherwise.
class Database {
 public:
  // The file must exist; links are not followed. `io` with `broken(error)` when it is not a database or a damaged one.
  static Result<Database> open(const std::string& path);

  // Runs statements without parameters or results, separated by semicolons.
  Result<> run(const char* sql);
  Result<std::int64_t> number(const char* sql);
  // Runs `work` (returning Result<>) as a transaction: all of its writes, or none. Does not nest.
  template <typename Work>
  Result<> together(Work work) {
    COVE_CHECK(run("BEGIN IMMEDIATE"));
    auto done = work();
    if (done) done = run("COMMIT");
    if (!done) [[maybe_unused]]
      const auto undone = run("ROLLBACK");
    return done;
  }
  [[nodiscard]] std::int64_t last_row_id() const;
  [[nodiscard]] std::int64_t changes() const;
  // The error of the last call that failed.
  [[nodiscard]] Error error() const;
  [[nodiscard]] sqlite3* handle() const { return handle_.get(); }

  // How long calls wait for another program that holds the database. One that waited in vain is followed by a `rest`,
  // in which calls fail at once: so the caller's thread stands still for at most patience of every patience + rest.
  struct Patience {
    std::chrono::milliseconds patience{10'000};
    std::chrono::milliseconds rest{0};
  };
  void set_patience(Patience patience);
  // Makes a call that returns SQLite's code, again for as long as the database is held and patience lasts.
  template <typename Call>
  int patiently(Call call) {
    start_waiting();
    int code = call();
    while (goes_on(code)) code = call();
    return code;
  }

 private:
  class Waiting;
  void start_waiting();
  bool goes_on(int code);

  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::shared_ptr<Waiting> waiting_;  // SQLite has its address; outlives the handle
  std::unique_ptr<sqlite3, Close> handle_;
};

// Whether an error means that the file is not a database, or is damaged.
[[nodiscard]] bool broken(const Error& error);

// One result row. Valid only within the call that receives it.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  // Reads the columns, in order, into the fields.
  template <typename... Fields>
  void read(std::tuple<Fields&...> fields, int column = 0) const {
    std::apply([&](auto&... field) { (get(column++, field), ...); }, fields);
  }
  void get(int column, std::string& out) const;
  void get(int column, bool& out) const { out = number(column) != 0; }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  void get(int column, T& out) const {
    out = static_cast<T>(number(column));
  }
  template <typename T>
  void get(int column, std::optional<T>& out) const {
    out.reset();
    if (!null(column)) get(column, out.emplace());
  }
  [[nodiscard]] bool null(int column) const;
  [[nodiscard]] std::int64_t number(int column) const;

 private:
  sqlite3_stmt* statement_;
};

// A statement that is prepared when it is first run, and kept. `sql` and `database` must outlive it.
class Statement {
 public:
  Statement(Database& database, std::string sql);

  // Binds the values in order and runs to the end.
  template <typename... Values>
  Result<> run(const Values&... values) {
    return each([](const Row&) {}, values...);
  }
  // As `run`; calls `on_row` for every result row.
  template <typename OnRow, typename... Values>
  Result<> each(OnRow on_row, const Values&... values) {
    COVE_CHECK(begin());
    int at = 0;
    Result<> bound;
    ((bound = bound ? bind(++at, values) : bound), ...);
    while (bound) {
      COVE_TRY(const auto more, step());
      if (!more) return {};
      on_row(Row(statement_.get()));
    }
    finish();
    return bound;
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Result<> begin();
  Result<bool> step();  // false: at the end, and reset
  void finish();
  Result<> bind(int at, std::string_view text);
  Result<> bind(int at, const std::string& text) { return bind(at, std::string_view(text)); }
  Result<> bind(int at, const char* text) { return bind(at, std::string_view(text)); }
  Result<> bind_number(int at, std::int64_t value);
  Result<> bind_null(int at);
  template <std::integral T>
  Result<> bind(int at, T value) {
    return bind_number(at, static_cast<std::int64_t>(value));
  }
  template <typename T>
  Result<> bind(int at, const std::optional<T>& value) {
    return value ? bind(at, *value) : bind_null(at);
  }

  Database& database_;
  std::string sql_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace cove::store
