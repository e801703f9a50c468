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
  std::uint64_t max_bytes = std::uint64_t{8} << 30;  // on disk
};

// The templates that sandboxes start from: the host's own root, and roots built from packages. A builder process builds
// them (src/builder); this class keeps their state.
class Templates {
 public:
  // Sends a request to the supervisor. Never waits.
  using Ask = std::function<Result<>(const wire::SupervisorRequest& request, std::vector<UniqueFd> fds)>;
  Templates(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store,
            store::TemplateRow host, Ask ask);

  // Loads the templates of a previous server; a build that was under way counts as failed. To be called before
  // sandboxes are restored.
  Result<> load();
  // Removes roots that belong to no template. To be called once the sandboxes of a previous server are restored.
  async::Task<Result<>> sweep();
  // Waits for the end of that: a root built meanwhile would be removed. Errc::unavailable when it takes too long.
  async::Task<Result<>> settle();

  // Null when there is no template of this name. Valid until the next change.
  [[nodiscard]] const store::TemplateRow* find(std::string_view name) const;
  // The template for a new sandbox. Errc::not_found, or Errc::conflict while it is not ready. Valid as for find().
  [[nodiscard]] Result<const store::TemplateRow*> usable(std::string_view name) const;
  // `host` first, then by name.
  [[nodiscard]] std::vector<const store::TemplateRow*> all() const;
  // The log of a build, also while it runs.
  [[nodiscard]] std::string log(std::string_view name) const;
  // Notified of every change.
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // Begins a build, after settle(). A failed template is built again. Errc::exists when the name is taken,
  // Errc::conflict during another build, Errc::not_found for an unknown base, Errc::quota when there are too many.
  Result<store::TemplateRow> build(BuildRequest request);
  // Errc::conflict for the host template, which follows the configuration.
  Result<store::TemplateRow> change(std::string_view name, store::TemplateDefaults defaults);
  // Withdraws a template from use and cancels its build. Errc::conflict for the host template. The caller has made sure
  // that no sandbox uses it.
  Result<store::TemplateRow> retire(std::string_view name);
  // Deletes what is left of a withdrawn template. Returns when it is gone.
  async::Task<Result<>> remove(std::string name);

 private:
  // A build under way.
  struct Building {
    std::string log;
    bool log_ended = false;
    bool cancelled = false;
    std::function<void()> give_up;  // stops waiting for the answer
  };
  struct Outcome {
    bool answered = false;  // the builder has sent its result
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
