#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// A file that a tenant stores; its content is elsewhere (file_store.hpp).
struct FileRow {
  std::int64_t seq = 0;  // set by the table
  std::string id;        // a lower-case UUID, version 4
  std::string tenant;
  std::string name;  // the client's own, any UTF-8
  std::uint64_t size_bytes = 0;
  std::int64_t uploaded_unix_ms = 0;
  std::string sha256;  // 64 characters of [0-9a-f]

  bool operator==(const FileRow&) const = default;
};

class FileTable {
 public:
  explicit FileTable(Database& database);

  Result<> insert(const FileRow& row);
  Result<std::optional<FileRow>> find(std::string_view tenant, std::string_view id);
  // Erasing a missing row is not an error.
  Result<> erase(std::string_view id);
  // By number, those after `after`: of one tenant that are younger than `since`, of everybody, or those that are not.
  Result<std::vector<FileRow>> of(std::string_view tenant, std::int64_t since_unix_ms, std::int64_t after,
                                  std::uint32_t limit);
  Result<std::vector<FileRow>> all(std::int64_t after, std::uint32_t limit);
  Result<std::vector<FileRow>> older(std::int64_t until_unix_ms, std::int64_t after, std::uint32_t limit);
  // Upload time of the oldest file: of the tenant, or of any tenant for "".
  Result<std::optional<std::int64_t>> first_time(std::string_view tenant);

 private:
  Statement insert_, find_, erase_, of_, all_, older_, first_, first_of_;
};

}  // namespace cove::store
