#include "sandbox/kernel_language.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace cove::sandbox {
namespace {

constexpr auto kLanguages = std::to_array<std::pair<KernelLanguage, std::string_view>>(
    {{KernelLanguage::python, "python"}, {KernelLanguage::javascript, "javascript"}, {KernelLanguage::bash, "bash"}});

}  // namespace

std::string_view name_of(KernelLanguage language) {
  return std::ranges::find(kLanguages, language, &std::pair<KernelLanguage, std::string_view>::first)->second;
}

std::optional<KernelLanguage> find_kernel_language(std::string_view name) {
  for (const auto& [language, known] : kLanguages) {
    if (known == name) return language;
  }
  return std::nullopt;
}

}  // namespace cove::sandbox
