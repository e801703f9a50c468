#include "doors/jupyter/notebooks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cove::doors::jupyter {

Result<> Notebooks::load() {
  if (loaded_) return {};
  COVE_TRY(rows_, store_.notebooks().all());
  loaded_ = true;
  return {};
}

Result<std::vector<NotebookRow>> Notebooks::of(const std::string& tenant) {
  COVE_CHECK(load());
  std::vector<NotebookRow> found;
  std::ranges::copy_if(rows_, std::back_inserter(found), [&](const auto& row) { return row.tenant == tenant; });
  return found;
}

Result<std::optional<NotebookRow>> Notebooks::find(const std::string& tenant, std::string_view id) {
  COVE_CHECK(load());
  const auto found = std::ranges::find_if(rows_, [&](const auto& row) { return row.tenant == tenant && row.id == id; });
  return found == rows_.end() ? std::nullopt : std::optional(*found);
}

Result<std::optional<NotebookRow>> Notebooks::for_path(const std::string& tenant, std::string_view path) {
  COVE_CHECK(load());
  const auto found =
      std::ranges::find_if(rows_, [&](const auto& row) { return row.tenant == tenant && row.path == path; });
  return found == rows_.end() ? std::nullopt : std::optional(*found);
}

Result<> Notebooks::put(NotebookRow row) {
  COVE_CHECK(load());
  const auto there = std::ranges::find(rows_, row.id, &NotebookRow::id);
  if (there == rows_.end() && std::cmp_greater_equal(std::ranges::count(rows_, row.tenant, &NotebookRow::tenant), kMax))
    return fail(Errc::quota, fmt::format("the limit of {} sessions is reached: delete one first", kMax));
  COVE_CHECK(store_.notebooks().put(row));
  if (there != rows_.end())
    *there = std::move(row);
  else
    rows_.push_back(std::move(row));
  return {};
}

Result<> Notebooks::remove(const std::string& id) {
  COVE_CHECK(load());
  COVE_CHECK(store_.notebooks().remove(id));
  std::erase_if(rows_, [&](const auto& row) { return row.id == id; });
  return {};
}

}  // namespace cove::doors::jupyter
