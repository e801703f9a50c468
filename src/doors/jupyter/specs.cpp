#include "doors/jupyter/specs.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;
using sandbox::KernelLanguage;

struct Spec {
  KernelLanguage language = KernelLanguage::python;
  std::string_view name;
  std::string_view alias;
  std::string_view program;
  std::string_view display_name;
  std::string_view language_name;
  std::string_view mimetype;
  std::string_view extension;
  std::string_view lexer;
  std::string_view version;  // until the interpreter has told its own
};

constexpr auto kSpecs = std::to_array<Spec>({
    {KernelLanguage::python, "python3", "python", "python3", "Python 3", "python", "text/x-python", ".py", "ipython3",
     "3.11"},
    {KernelLanguage::javascript, "javascript", "node", "node", "JavaScript (Node.js)", "javascript",
     "application/javascript", ".js", "javascript", "20"},
    {KernelLanguage::bash, "bash", "sh", "bash", "Bash", "bash", "text/x-sh", ".sh", "bash", "5"},
});

const Spec& spec_of(KernelLanguage language) {
  return *std::ranges::find(kSpecs, language, &Spec::language);
}

}  // namespace

std::string_view spec_name(KernelLanguage language) {
  return spec_of(language).name;
}

std::optional<KernelLanguage> find_spec(std::string_view name) {
  const auto found = std::ranges::find_if(kSpecs, [&](const Spec& s) { return s.name == name || s.alias == name; });
  return found == kSpecs.end() ? std::nullopt : std::optional(found->language);
}

json::object spec_json(KernelLanguage language) {
  const auto& spec = spec_of(language);
  const json::object described{{"argv", json::array{spec.program, "{connection_file}"}},
                               {"display_name", spec.display_name},
                               {"language", spec.language_name},
                               {"interrupt_mode", "signal"},
                               {"env", json::object()},
                               {"metadata", json::object()}};
  return {{"name", spec.name}, {"spec", described}, {"resources", json::object()}};
}

json::object specs_json() {
  json::object all;
  for (const auto& spec : kSpecs) all[spec.name] = spec_json(spec.language);
  return {{"default", kDefaultSpec}, {"kernelspecs", std::move(all)}};
}

json::object kernel_info(const sandbox::Kernel& kernel) {
  const auto& spec = spec_of(kernel.language());
  const std::string version = kernel.version().empty() ? std::string(spec.version) : kernel.version();
  json::object language{{"name", spec.language_name},
                        {"version", version},
                        {"mimetype", spec.mimetype},
                        {"file_extension", spec.extension},
                        {"pygments_lexer", spec.lexer},
                        {"codemirror_mode", spec.language_name},
                        {"nbconvert_exporter", spec.language == KernelLanguage::python ? "python" : "script"}};
  if (spec.language == KernelLanguage::python)
    language["codemirror_mode"] = json::object{{"name", "ipython"}, {"version", 3}};
  return {{"status", "ok"},
          {"protocol_version", "5.3"},
          {"implementation", "cove"},
          {"implementation_version", COVE_VERSION},
          {"language_info", std::move(language)},
          {"banner", std::string(spec.display_name) + " in a Cove sandbox"},
          {"help_links", json::array()},
          {"debugger", false}};
}

}  // namespace cove::doors::jupyter
