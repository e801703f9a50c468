#include "store/file_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns = "id, tenant, name, size_bytes, uploaded_unix_ms, sha256";

auto fields(auto& r) {
  return std::tie(r.id, r.tenant, r.name, r.size_bytes, r.uploaded_unix_ms, r.sha256);
}

void read(const Row& row, FileRow& out) {
  row.get(0, out.seq);
  row.read(fields(out), 1);
}

auto collect(std::vector<FileRow>& rows) {
  return [&rows](const Row& row) { read(row, rows.emplace_back()); };
}

std::string select(std::string_view rest) {
  return fmt::format("SELECT seq, {} FROM files WHERE {}", kColumns, rest);
}

}  // namespace

FileTable::FileTable(Database& database)
    : insert_(database, insert_into("files", kColumns)),
      find_(database, select("id = ?2 AND tenant = ?1")),
      erase_(database, "DELETE FROM files WHERE id = ?"),
      of_(database, select("tenant = ?1 AND uploaded_unix_ms > ?2 AND seq > ?3 ORDER BY seq LIMIT ?4")),
      all_(database, select("seq > ?1 ORDER BY seq LIMIT ?2")),
      older_(database, select("uploaded_unix_ms <= ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")),
      first_(database, "SELECT uploaded_unix_ms FROM files ORDER BY seq LIMIT 1"),
      first_of_(database, "SELECT uploaded_unix_ms FROM files WHERE tenant = ? ORDER BY seq LIMIT 1") {}

Result<> FileTable::insert(const FileRow& row) {
  return std::apply([&](const auto&... field) { return insert_.run(field...); }, fields(row));
}

Result<std::optional<FileRow>> FileTable::find(std::string_view tenant, std::string_view id) {
  std::optional<FileRow> found;
  COVE_CHECK(find_.each([&](const Row& row) { read(row, found.emplace()); }, tenant, id));
  return found;
}

Result<> FileTable::erase(std::string_view id) {
  return erase_.run(id);
}

Result<std::vector<FileRow>> FileTable::of(std::string_view tenant, std::int64_t since_unix_ms, std::int64_t after,
                                           std::uint32_t limit) {
  std::vector<FileRow> rows;
  COVE_CHECK(of_.each(collect(rows), tenant, since_unix_ms, after, limit));
  return rows;
}

Result<std::vector<FileRow>> FileTable::all(std::int64_t after, std::uint32_t limit) {
  std::vector<FileRow> rows;
  COVE_CHECK(all_.each(collect(rows), after, limit));
  return rows;
}

Result<std::vector<FileRow>> FileTable::older(std::int64_t until_unix_ms, std::int64_t after, std::uint32_t limit) {
  std::vector<FileRow> rows;
  COVE_CHECK(older_.each(collect(rows), until_unix_ms, after, limit));
  return rows;
}

Result<std::optional<std::int64_t>> FileTable::first_time(std::string_view tenant) {
  std::optional<std::int64_t> first;
  const auto read_it = [&](const Row& row) { row.get(0, first); };
  COVE_CHECK(tenant.empty() ? first_.each(read_it) : first_of_.each(read_it, tenant));
  return first;
}

}  // namespace cove::store
