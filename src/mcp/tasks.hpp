#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "async/task_group.hpp"
#include "mcp/call.hpp"
#include "mcp/notifier.hpp"

namespace cove::mcp {

// Whether the client of a modern call supports tasks.
bool knows_tasks(const Call& call);
// The fault for a client that does not support tasks.
Fault needs_tasks();

// Calls that continue after their answer, which is a task id to poll. Without keys, a task can be found only by its id.
class Tasks {
 public:
  struct Options {
    std::size_t most = 100;  // of one tenant
    // Bytes of results, of one tenant and of all: new tasks start only below these.
    std::size_t tenant_bytes = std::size_t{64} << 20;
    std::size_t bytes = std::size_t{256} << 20;
    std::chrono::milliseconds life{std::chrono::hours(1)};
    std::chrono::milliseconds max_life{std::chrono::hours(24)};
    std::chrono::milliseconds poll{500};
  };
  // The work of a task. The call belongs to the task: cancelled with it, without notifications; its questions go to the
  // client that polls the task.
  using Work = std::function<Task<Or<>>(std::shared_ptr<Call> call)>;

  Tasks(boost::asio::any_io_executor executor, async::TaskGroup& tasks, Notifier& notifier, Options options);
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  // The answer to a call that became a task. If the work ends within `patience`, its result, as if there were no task.
  Task<Or<>> begin(Call& call, Work work, std::chrono::milliseconds patience);
  // Whether the caller may start another task.
  [[nodiscard]] bool has_capacity_for(const Call& call) const;
  // tasks/get, tasks/result, tasks/list, tasks/cancel, tasks/update: those that the call's revision has.
  Task<Or<>> serve(Call& call);
  // Whether the caller may see the task.
  [[nodiscard]] bool has(const Call& call, const std::string& id) const { return find(call, id) != nullptr; }

 private:
  struct Entry;
  class Asking;
  std::shared_ptr<Entry> find(const Call& call, const std::string& id) const;
  Or<std::shared_ptr<Entry>> wanted(const Call& call) const;
  Or<std::chrono::milliseconds> life_for(const Call& call) const;
  boost::json::object described(const Entry& entry) const;
  boost::json::object detailed(const Entry& entry) const;
  static Task<> run(Tasks* self, std::shared_ptr<Entry> entry, Work work);
  static Task<> expire(Tasks* self, std::shared_ptr<Entry> entry);
  void change(Entry& entry, std::string_view status, std::string message);
  void finish(Entry& entry, Or<> outcome);
  // Removes the tenant's oldest finished tasks until it is within its bounds.
  void evict_finished(const std::string& tenant, std::size_t more);
  [[nodiscard]] bool fits(const std::string& tenant, std::size_t more) const;
  void cancel(Entry& entry);
  Or<> list(const Call& call) const;
  Task<Or<>> result(Call& call, std::shared_ptr<Entry> entry);
  Or<> update(const Call& call, Entry& entry);

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  Notifier& notifier_;
  Options options_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;  // by id
  std::uint64_t next_ = 0;
};

}  // namespace cove::mcp
