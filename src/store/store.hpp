#pragma once

#include <memory>
#include <string>

#include "store/activity_table.hpp"
#include "store/callback_table.hpp"
#include "store/database.hpp"
#include "store/event_table.hpp"
#include "store/execution_table.hpp"
#include "store/file_table.hpp"
#include "store/idempotency_table.hpp"
#include "store/key_table.hpp"
#include "store/notebook_table.hpp"
#include "store/process_table.hpp"
#include "store/sandbox_table.hpp"
#include "store/secret_box.hpp"
#include "store/template_table.hpp"
#include "store/tool_server_table.hpp"

namespace cove::store {

inline constexpr const char* kDatabaseFile = "cove.db";

// What to do about a file that is not a database.
enum class OnBroken {
  refuse,      // fail and change nothing: for tools such as `cove key`
  move_aside,  // keep it as cove.db.broken-TIME and start with an empty one: for the server
};

// Everything that outlives the server: <dir>/cove.db, mode 0600, in WAL mode. Writes survive kill -9;
// after a power failure the last moments may be missing, but never half a transaction. Used by one thread; other
// processes may open the same directory.
class Store {
 public:
  // `dir` must exist. A file made by root gets the owner of `dir`, so that a server without privilege can use it.
  // Errc::unsupported when a newer Cove wrote it.
  static Result<std::unique_ptr<Store>> open(const std::string& dir, OnBroken on_broken);
  Store(Database database, std::string dir);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  SandboxTable& sandboxes() { return sandboxes_; }
  ProcessTable& processes() { return processes_; }
  EventTable& events() { return events_; }
  IdempotencyTable& idempotency() { return idempotency_; }
  KeyTable& keys() { return keys_; }
  FileTable& files() { return files_; }
  ExecutionTable& executions() { return executions_; }
  CallbackTable& callbacks() { return callbacks_; }
  TemplateTable& templates() { return templates_; }
  NotebookTable& notebooks() { return notebooks_; }
  ActivityTable& activity() { return activity_; }
  ToolServerTable& tool_servers() { return tool_servers_; }
  // For secrets in rows, sealed and opened with the id of the row.
  SecretBox& secrets() { return secrets_; }

  // Runs `work` (returning Result<>) as a transaction: all of its writes, or none.
  template <typename Work>
  Result<> together(Work work) {
    return database_.together(std::move(work));
  }

  // How long calls wait for another program that holds the database.
  void set_patience(Database::Patience patience) { database_.set_patience(patience); }

  // Changes when another connection has written, such as `cove key revoke`. Writes of this object do not change it.
  Result<std::int64_t> data_version();
  // What was moved aside on opening, as a sentence for the log; empty when nothing was.
  [[nodiscard]] const std::string& warning() const { return warning_; }
  // A database was moved aside, now or in an earlier start, and still lies there: keys may have gone with it, so
  // "no keys" does not mean that the server is meant to be open. Removing the file confirms that it is.
  [[nodiscard]] bool keys_may_be_lost() const { return keys_may_be_lost_; }

 private:
  Database database_;
  SandboxTable sandboxes_;
  ProcessTable processes_;
  EventTable events_;
  IdempotencyTable idempotency_;
  KeyTable keys_;
  FileTable files_;
  ExecutionTable executions_;
  CallbackTable callbacks_;
  TemplateTable templates_;
  NotebookTable notebooks_;
  ActivityTable activity_;
  ToolServerTable tool_servers_;
  SecretBox secrets_;
  std::string warning_;
  bool keys_may_be_lost_ = false;
};

}  // namespace cove::store
