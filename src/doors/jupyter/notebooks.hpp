#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/store.hpp"

namespace cove::doors::jupyter {

using store::NotebookRow;

// Jupyter's sessions: which document runs in which kernel. They outlive the server.
class Notebooks {
 public:
  static constexpr std::size_t kMax = 1000;  // of one tenant

  explicit Notebooks(store::Store& store) : store_(store) {}

  Result<std::vector<NotebookRow>> of(const std::string& tenant);
  Result<std::optional<NotebookRow>> find(const std::string& tenant, std::string_view id);
  // The one for a document; its kernel may be gone.
  Result<std::optional<NotebookRow>> for_path(const std::string& tenant, std::string_view path);
  // Errc::quota when the tenant has kMax.
  Result<> put(NotebookRow row);
  Result<> remove(const std::string& id);

 private:
  // From the store, once.
  Result<> load();

  store::Store& store_;
  bool loaded_ = false;
  std::vector<NotebookRow> rows_;
};

}  // namespace cove::doors::jupyter
