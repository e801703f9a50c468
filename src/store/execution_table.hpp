#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tenant_usage.hpp"
#include "store/database.hpp"

namespace cove::store {

// One asynchronous execution: what was asked, and what came of it.
struct ExecutionRow {
  std::string id;
  std::string sandbox;       // SandboxRow::id
  std::string sandbox_name;  // and what it needs to be told of when that is gone
  std::string tenant;
  std::string status = "pending";
  std::string language;
  std::string kernel;  // empty: a process of its own
  std::string code;
  std::string request_json = "{}";  // the rest of what was asked, as it is shown
  std::int64_t created_unix_ms = 0;
  std::int64_t deadline_boot_ms = 0;  // 0: it has not begun
  std::string callback_url;
  std::string callback_secret;
  std::optional<std::int64_t> started_unix_ms;
  std::optional<std::int64_t> ended_unix_ms;
  std::optional<std::string> result_json;
  std::int64_t seq = 0;  // given by insert

  bool operator==(const ExecutionRow&) const = default;
};

// What one sandbox has of executions that ended: code and results.
struct ExecutionHistoryRow {
  std::string sandbox;
  std::string tenant;
  Amount amount;
};

class ExecutionTable {
 public:
  explicit ExecutionTable(Database& database);

  // Errc::not_found for a sandbox that is not there.
  Result<> insert(const ExecutionRow& row);
  Result<> begin(std::string_view id, std::int64_t started_unix_ms, std::int64_t deadline_boot_ms);
  // Nothing happens when it is gone with its sandbox.
  Result<> finish(const ExecutionRow& row);
  // Errc::not_found.
  Result<ExecutionRow> find(std::string_view sandbox, std::string_view id);
  // The newest first, those before `before` (0: from the newest on). An empty status is any.
  Result<std::vector<ExecutionRow>> of(std::string_view sandbox, std::int64_t before, std::string_view status,
                                       std::uint32_t limit);
  // Of all sandboxes, those that have not ended.
  Result<std::vector<ExecutionRow>> unfinished();
  // Forgets the oldest that have ended, until no more than `keep` of them with no more than `bytes` are left.
  Result<> prune(std::string_view sandbox, std::uint32_t keep, std::uint64_t bytes);
  // Forgets the oldest of the tenant that has ended. The sandbox it was of; nullopt when there is none.
  Result<std::optional<std::string>> evict_oldest(std::string_view tenant);
  // Of those that have ended: what each sandbox has, and what one has.
  Result<std::vector<ExecutionHistoryRow>> history();
  Result<Amount> history_of(std::string_view sandbox);

 private:
  Statement insert_, begin_, finish_, find_, of_, unfinished_, prune_, evict_, history_, history_of_;
};

}  // namespace cove::store
