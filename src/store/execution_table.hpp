#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tenant_usage.hpp"
#include "store/database.hpp"

namespace cove::store {

// One asynchronous execution: the request and its result.
struct ExecutionRow {
  std::string id;
  std::string sandbox;       // SandboxRow::id
  std::string sandbox_name;  // for its callback, when the sandbox is gone
  std::string tenant;
  std::string status = "pending";
  std::string language;
  std::string kernel;  // empty: it runs in a process
  std::string code;
  std::string request_json = "{}";  // the rest of the request, as clients see it
  std::int64_t created_unix_ms = 0;
  std::int64_t deadline_boot_ms = 0;  // 0: not started
  std::string callback_url;
  std::string callback_secret;
  std::optional<std::int64_t> started_unix_ms;
  std::optional<std::int64_t> ended_unix_ms;
  std::optional<std::string> result_json;
  std::int64_t seq = 0;  // set by insert

  bool operator==(const ExecutionRow&) const = default;
};

// What the finished executions of one sandbox take: code and results.
struct ExecutionHistoryRow {
  std::string sandbox;
  std::string tenant;
  Amount amount;
};

class ExecutionTable {
 public:
  explicit ExecutionTable(Database& database);

  // Errc::not_found for an unknown sandbox.
  Result<> insert(const ExecutionRow& row);
  Result<> begin(std::string_view id, std::int64_t started_unix_ms, std::int64_t deadline_boot_ms);
  // Does nothing when it was deleted with its sandbox.
  Result<> finish(const ExecutionRow& row);
  // Errc::not_found.
  Result<ExecutionRow> find(std::string_view sandbox, std::string_view id);
  // Newest first, those before `before` (0: from the newest). An empty status matches all.
  Result<std::vector<ExecutionRow>> of(std::string_view sandbox, std::int64_t before, std::string_view status,
                                       std::uint32_t limit);
  // The unfinished executions of all sandboxes.
  Result<std::vector<ExecutionRow>> unfinished();
  // Deletes the oldest finished ones, until at most `keep` of them with at most `bytes` are left.
  Result<> prune(std::string_view sandbox, std::uint32_t keep, std::uint64_t bytes);
  // Deletes the tenant's oldest finished one. Returns its sandbox; nullopt when there is none.
  Result<std::optional<std::string>> evict_oldest(std::string_view tenant);
  // What the finished ones take: of each sandbox, and of one.
  Result<std::vector<ExecutionHistoryRow>> history();
  Result<Amount> history_of(std::string_view sandbox);

 private:
  Statement insert_, begin_, finish_, find_, of_, unfinished_, prune_, evict_, history_, history_of_;
};

}  // namespace cove::store
