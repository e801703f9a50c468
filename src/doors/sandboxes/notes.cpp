#include "doors/sandboxes/notes.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/log_fields.hpp"
#include "base/nearest.hpp"
#include "base/units.hpp"
#include "doors/sandboxes/answers.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxNamed = 8;
constexpr std::size_t kNameLimit = 64;

// What others call what we have under another name.
struct Synonym {
  std::string_view field;
  std::string_view ours;
};
constexpr auto kSynonyms = std::to_array<Synonym>({
    {"memory", "memoryLimit"},
    {"mem", "memoryLimit"},
    {"cpu", "cpuLimit"},
    {"cpus", "cpuLimit"},
    {"pids", "pidsLimit"},
    {"disk", "ephemeralStorageLimit"},
    {"storage", "ephemeralStorageLimit"},
    {"ttl", "ttlSeconds"},
    {"timeout", "timeoutSeconds"},
    {"command", "cmd"},
    {"args", "cmd"},
    {"cwd", "workdir"},
    {"environment", "env"},
    {"envs", "env"},
});

std::string meant(std::string_view field, FieldNames known) {
  for (const auto& synonym : kSynonyms) {
    if (synonym.field == field && std::ranges::find(known, synonym.ours) != known.end())
      return std::string(synonym.ours);
  }
  return nearest(field, std::vector<std::string>(known.begin(), known.end()));
}

// Whether the request names the field with something in it.
bool given(const json::object& body, std::string_view name) {
  const auto* value = body.if_contains(name);
  if (value == nullptr || value->is_null()) return false;
  if (value->is_string()) return !value->as_string().empty();
  if (value->is_object()) return !value->as_object().empty();
  return !value->is_array() || !value->as_array().empty();
}

}  // namespace

json::array unknown_fields(const json::object& body, FieldNames known) {
  json::array notes;
  std::size_t more = 0;
  for (const auto& [name, value] : body) {
    const std::string_view field(name);
    if (std::ranges::find(known, field) != known.end()) continue;
    if (notes.size() == kMaxNamed) {
      ++more;
      continue;
    }
    const auto suggested = meant(field, known);
    notes.emplace_back(fmt::format("field {} is not known and was ignored{}", log_value(field, kNameLimit),
                                   suggested.empty() ? "" : fmt::format("; did you mean {}?", suggested)));
  }
  if (more > 0) notes.emplace_back(fmt::format("{} more fields are not known and were ignored", more));
  return notes;
}

json::array not_applied(const json::object& body, const sandbox::CreateRequest& asked,
                        const sandbox::Sandbox& sandbox) {
  const auto& row = sandbox.row();
  std::vector<std::string> limits;
  const auto size = [&](const char* field, std::uint64_t wanted, std::uint64_t has) {
    if (given(body, field) && wanted != has)
      limits.push_back(fmt::format("{} {} (it has {})", field, format_size(wanted), format_size(has)));
  };
  const auto count = [&](const char* field, std::uint64_t wanted, std::uint64_t has, const char* unit) {
    if (given(body, field) && wanted != has)
      limits.push_back(fmt::format("{} {}{} (it has {}{})", field, wanted, unit, has, unit));
  };
  size("memoryLimit", asked.limits.memory_bytes, row.memory_bytes);
  size("ephemeralStorageLimit", std::min(asked.limits.disk_bytes, sandbox::most_disk_bytes(asked.limits.memory_bytes)),
       row.disk_bytes);
  count("cpuLimit", asked.limits.cpu_millis, row.cpu_millis, "m");
  count("pidsLimit", asked.limits.pids, row.pids, "");
  std::vector<std::string> others;
  const bool from = given(body, "template") || given(body, "image");
  if (from && asked.template_name != row.template_name)
    others.push_back(given(body, "template") ? "template" : "image");
  if (given(body, "env") && asked.env_json != row.env_json) others.emplace_back("env");
  if (given(body, "labels") && asked.labels_json != row.labels_json) others.emplace_back("labels");
  if (given(body, "metadata") && asked.metadata_json != row.metadata_json) others.emplace_back("metadata");
  if (given(body, "workdir") && asked.directory != row.directory) others.emplace_back("workdir");
  if (given(body, "dependencies")) others.emplace_back("dependencies");

  json::array notes;
  if (!limits.empty())
    notes.emplace_back(fmt::format("{} is there already, so these were not applied: {}; PATCH changes them",
                                   log_value(row.name), fmt::join(limits, ", ")));
  if (!others.empty())
    notes.emplace_back(fmt::format("{} is there already, so these were not applied: {}", log_value(row.name),
                                   fmt::join(others, ", ")));
  return notes;
}

void add_notes(json::object& answer, const json::array& notes) {
  auto& all = answer["notes"];
  if (!all.is_array()) all = json::array();
  for (const auto& note : notes) all.as_array().push_back(note);
}

Task<Result<json::object>> read_object(const Services& services, http::Exchange& exchange, FieldNames known) {
  COVE_CO_TRY(auto body, co_await read_object(services, exchange));
  std::string text;
  for (const auto& note : unknown_fields(body, known))
    text += (text.empty() ? "" : ". ") + std::string(note.as_string());
  if (!text.empty()) exchange.attach_header("Cove-Notes", text);
  co_return body;
}

}  // namespace cove::doors::sandboxes
