#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cove::sandbox {

enum class KernelLanguage : std::uint8_t { python, javascript, bash };
std::string_view name_of(KernelLanguage language);
// nullopt for a language that has no kernels.
std::optional<KernelLanguage> find_kernel_language(std::string_view name);

}  // namespace cove::sandbox
