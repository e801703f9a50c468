#include "cli/run/template_root.hpp"

#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>

#include "store/store.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;

std::vector<std::string> variables_of(const std::string& env_json) {
  std::vector<std::string> out;
  boost::system::error_code failed;
  const auto env = json::parse(env_json, failed);
  if (failed || !env.is_object()) return out;
  for (const auto& [name, value] : env.as_object()) {
    if (value.is_string())
      out.push_back(fmt::format("{}={}", std::string_view(name), std::string_view(value.as_string())));
  }
  return out;
}

Result<std::vector<store::TemplateRow>> templates_in(const std::string& state_dir) {
  const auto directory = state_dir + "/front";
  if (::access((directory + "/" + store::kDatabaseFile).c_str(), F_OK) != 0 && errno != EACCES)
    return std::vector<store::TemplateRow>();  // no server has been here
  COVE_TRY(const auto store, store::Store::open(directory, store::OnBroken::refuse));
  return store->templates().all();
}

}  // namespace

Result<TemplateRoot> find_template(const std::string& state_dir, const std::string& name) {
  if (name == "host") return TemplateRoot{};
  auto rows = templates_in(state_dir);
  if (!rows)
    return fail(rows.error().code,
                fmt::format("--template: the templates in {} cannot be read: {}", state_dir, rows.error().message));
  std::string known = "host";
  for (const auto& row : *rows) {
    if (row.name == name && row.status == "ready")
      return TemplateRoot{.number = row.number, .variables = variables_of(row.defaults.env_json)};
    if (row.name == name)
      return fail(Errc::conflict, fmt::format("--template: {} is not ready ({})", name, row.status));
    if (row.status == "ready") known += ", " + row.name;
  }
  return fail(Errc::not_found, fmt::format("--template: there is no template '{}' in {}; there is {}. `cove template "
                                           "build` makes one, --state-dir names the server's directory",
                                           name, state_dir, known));
}

}  // namespace cove::cli
