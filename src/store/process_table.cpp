#include "store/process_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kStart =
    "sandbox, number, kind, command_json, terminal, input_open, started_unix_ms, deadline_boot_ms, owner, language, "
    "birth, variables_json";
constexpr std::string_view kEnd =
    "ended_unix_ms, reason, exit_code, signal, duration_ms, cpu_ms, stdout_bytes, stderr_bytes, last_seq";

auto start_fields(auto& r) {
  return std::tie(r.sandbox, r.number, r.kind, r.command_json, r.terminal, r.input_open, r.started_unix_ms,
                  r.deadline_boot_ms, r.owner, r.language, r.birth, r.variables_json);
}
constexpr int kStartCount = 12;

auto end_fields(auto& e) {
  return std::tie(e.ended_unix_ms, e.reason, e.exit_code, e.signal, e.duration_ms, e.cpu_ms, e.stdout_bytes,
                  e.stderr_bytes, e.last_seq);
}

}  // namespace

ProcessTable::ProcessTable(Database& database)
    : database_(database),
      insert_(database, insert_into("processes", kStart)),
      finish_(database,
              fmt::format("UPDATE processes SET ({}) = ({}) WHERE sandbox = ? AND number = ?", kEnd, marks(kEnd))),
      erase_(database, "DELETE FROM processes WHERE sandbox = ? AND number = ?"),
      of_(database, fmt::format("SELECT {}, {} FROM processes WHERE sandbox = ? ORDER BY number", kStart, kEnd)) {}

Result<> ProcessTable::insert(const ProcessRow& row) {
  return std::apply([&](const auto&... field) { return insert_.run(field...); }, start_fields(row));
}

Result<> ProcessTable::finish(std::string_view sandbox, std::uint32_t number, const ProcessEnd& end) {
  COVE_CHECK(std::apply([&](const auto&... field) { return finish_.run(field..., sandbox, number); }, end_fields(end)));
  if (database_.changes() == 0) return fail(Errc::not_found, fmt::format("no such process: p{}", number));
  return {};
}

Result<> ProcessTable::erase(std::string_view sandbox, std::uint32_t number) {
  return erase_.run(sandbox, number);
}

Result<std::vector<ProcessRow>> ProcessTable::of(std::string_view sandbox) {
  std::vector<ProcessRow> rows;
  COVE_CHECK(of_.each(
      [&](const Row& row) {
        auto& process = rows.emplace_back();
        row.read(start_fields(process));
        if (!row.null(kStartCount)) row.read(end_fields(process.end.emplace()), kStartCount);
      },
      sandbox));
  return rows;
}

}  // namespace cove::store
