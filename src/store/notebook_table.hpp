#pragma once

#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// A Jupyter session: a notebook, or another document, and the kernel it runs in.
struct NotebookRow {
  std::string id;
  std::string tenant;
  std::string path;
  std::string name;
  std::string type;
  std::string kernel;  // its id, as Jupyter's clients know it

  bool operator==(const NotebookRow&) const = default;
};

class NotebookTable {
 public:
  explicit NotebookTable(Database& database);

  // Inserts it, or replaces the one with its id.
  Result<> put(const NotebookRow& row);
  Result<> remove(const std::string& id);
  Result<std::vector<NotebookRow>> all();

 private:
  Statement put_, remove_, all_;
};

}  // namespace cove::store
