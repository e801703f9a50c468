#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "store/store.hpp"
#include "wire/supervisor_messages.hpp"

namespace cove::templates {

inline constexpr std::string_view kHostTemplate = "host";

struct BuildRequest {
  std::string name;
  std::string base{kHostTemplate};  // whose packages and defaults it has too
  std::vector<std::string> packages;
  std::vector<std::string> preload;
  store::TemplateDefaults defaults;
  std::chrono::seconds timeout{900};
};

// What sandboxes start from: the host's own root, and those that were built from packages. Builds are done elsewhere
// (src/builder); here is what is known of them.
class Templates {
 public:
  // Asks the supervisor. Never waits.
  using Ask = std::function<Result<>(const wire::SupervisorRequest& request, std::vector<UniqueFd> fds)>;
  Templates(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store,
            store::TemplateRow host, Ask ask);

  // What the server before us knew; a build that was going on has failed. Before the first sandbox is looked for.
  Result<> load();
  // Removes what no template has. Once the sandboxes of the server before us are known.
  async::Task<Result<>> sweep();
  // Until that is over: what is built meanwhile would be swept away. Errc::unavailable when it takes too long.
  async::Task<Result<>> settle();

  // Null when there is none of this name. Valid until the next change.
  [[nodiscard]] const store::TemplateRow* find(std::string_view name) const;
  // The one to make a sandbox of now. Errc::not_found, Errc::conflict while it is not ready. As find().
  [[nodiscard]] Result<const store::TemplateRow*> usable(std::string_view name) const;
  // `host` first, then by name.
  [[nodiscard]] std::vector<const store::TemplateRow*> all() const;
  // What a build has said, also while it goes on.
  [[nodiscard]] std::string log(std::string_view name) const;
  // Notified of every change.
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // Begins it, after settle(). One that failed is built anew. Errc::exists when there is one of this name,
  // Errc::conflict while another is being built, Errc::not_found for a base that is not there, Errc::quota when there
  // are too many.
  Result<store::TemplateRow> build(BuildRequest request);
  // Errc::conflict for the host's, which has what the configuration says.
  Result<store::TemplateRow> change(std::string_view name, store::TemplateDefaults defaults);
  // Nobody gets it from now on; a build that goes on is cancelled. Errc::conflict for the host's. The caller has seen
  // to it that no sandbox stands on it.
  Result<store::TemplateRow> retire(std::string_view name);
  // What is left of one that was retired. Returns when it is gone.
  async::Task<Result<>> remove(std::string name);

 private:
  // A build that goes on.
  struct Building {
    std::string log;
    bool log_ended = false;
    bool cancelled = false;
    std::function<void()> give_up;  // nobody waits for the answer any more
  };
  struct Outcome {
    bool heard = false;  // the builder's own last word
    std::string failure;
  };
  async::Task<> follow(std::string name, UniqueFd answer, UniqueFd log);
  async::Task<> follow_log(std::shared_ptr<Building> building, UniqueFd log);
  async::Task<Result<>> ask_and_wait(wire::SupervisorRequest request);
  static Outcome read_answer(std::string_view text, store::TemplateRow& row);
  Result<> put(const store::TemplateRow& row);

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  store::Store& store_;
  store::TemplateRow host_;
  Ask ask_;
  std::map<std::string, store::TemplateRow, std::less<>> rows_;
  std::map<std::string, std::shared_ptr<Building>, std::less<>> building_;
  async::Signal changed_;
  bool swept_ = false;
};

}  // namespace cove::templates
