#include "config/public_index.hpp"

#include <fcntl.h>

#include <filesystem>

#include "base/io.hpp"

namespace cove::config {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSource = "pip/_internal/models/index.py";

}  // namespace

std::string index_in(std::string_view source) {
  constexpr std::string_view kBefore = "\nPyPI = PackageIndex(";
  const auto begin = source.find(kBefore);
  if (begin == source.npos) return {};
  source.remove_prefix(begin + kBefore.size());
  const auto quote = source.find_first_not_of(" \t\n");
  if (quote == source.npos || source[quote] != '"') return {};
  source.remove_prefix(quote + 1);
  const auto url = source.substr(0, source.find('"'));
  return url.starts_with("https://") && url.ends_with('/') ? std::string(url) + "simple/" : std::string();
}

Result<std::string> public_index() {
  std::error_code ec;
  for (const char* top : {"/usr/lib", "/usr/local/lib"}) {
    for (const auto& entry : fs::directory_iterator(top, ec)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"dist-packages", "site-packages"}) {
        const auto source = read_file_at(AT_FDCWD, entry.path() / packages / kSource);
        if (auto url = source ? index_in(*source) : std::string(); !url.empty()) return url;
      }
    }
  }
  return fail(Errc::not_found, "there is no pip on this host that names a public index: install python3-pip");
}

}  // namespace cove::config
