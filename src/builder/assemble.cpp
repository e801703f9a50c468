#include "builder/assemble.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <filesystem>
#include <optional>

#include "base/io.hpp"
#include "base/text.hpp"
#include "builder/tree.hpp"
#include "config/languages.hpp"
#include "host/root_skeleton.hpp"

namespace cove::builder {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackages = "/var/lib/dpkg/status";
constexpr const char* kIpython = "/usr/lib/python3/dist-packages/IPython/__init__.py";

// Also a link counts, whatever it leads to: it is meant for inside.
bool there(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_directory(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// A sandbox has /usr and links into it; what lay elsewhere would be missing.
Result<> check_shape(const std::string& image) {
  for (const auto* part : {"/usr", "/etc", "/var", "/var/lib", "/var/lib/dpkg"}) {
    if (!is_directory(image + part)) return fail(Errc::io, fmt::format("the packages made no directory {}", part));
  }
  for (const auto* top : host::kTopLevel) {
    if (is_directory(fmt::format("{}/{}", image, top)))
      return fail(Errc::unsupported, fmt::format("/{} of this release is no link into /usr", top));
  }
  return {};
}

std::map<std::string, std::string> installed_in(std::string_view status) {
  std::map<std::string, std::string> installed;
  std::string name;
  std::string version;
  bool good = false;
  while (!status.empty()) {
    auto line = take_until(status, '\n');
    const auto value = [&line](std::string_view field) -> std::optional<std::string> {
      if (!line.starts_with(field)) return std::nullopt;
      return std::string(line.substr(field.size()));
    };
    if (auto text = value("Package: ")) name = std::move(*text);
    if (auto text = value("Version: ")) version = std::move(*text);
    if (auto text = value("Status: ")) good = *text == "install ok installed";
    if (!line.empty() && !status.empty()) continue;
    if (good && !name.empty()) installed.emplace(std::move(name), std::move(version));
    name.clear();
    version.clear();
    good = false;
  }
  return installed;
}

Result<> write_text(const std::string& path, std::string_view text) {
  COVE_TRY(const auto file, open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  return write_all(file.get(), text);
}

Result<> write_manifest(const std::string& base, const Contents& contents) {
  std::string text;
  for (const auto& [name, version] : contents.installed) text += fmt::format("{} {}\n", name, version);
  return write_text(base + "/manifest", text);
}

Result<> write_preload(const std::string& base, const std::vector<std::string>& preload) {
  if (preload.empty()) return {};
  const auto directory = base + "/lower/etc/cove";
  if (::mkdir(directory.c_str(), 0755) != 0) return fail_errno(errno, "make {}", directory);
  return write_text(directory + "/preload", fmt::format("{}\n", fmt::join(preload, "\n")));
}

}  // namespace

Result<Contents> assemble(const std::string& base, const std::vector<std::string>& preload) {
  const auto image = base + "/image";
  const auto lower = base + "/lower";
  const auto usr = base + "/usr";
  COVE_CHECK(check_shape(image));
  Contents contents;
  COVE_TRY(const auto packages, read_file_at(AT_FDCWD, image + kPackages));
  contents.installed = installed_in(packages);
  if (::mkdir(lower.c_str(), 0755) != 0) return fail_errno(errno, "make {}", lower);
  COVE_CHECK(host::make_lower(lower, image, host::EtcChoice::of_image));
  COVE_CHECK(write_preload(base, preload));
  if (::rename((image + "/usr").c_str(), usr.c_str()) != 0) return fail_errno(errno, "move {}", usr);
  COVE_CHECK(remove_tree(image));
  for (const auto& part : {lower, usr}) {
    COVE_TRY(const auto bytes, disarm(part));
    contents.size_bytes += bytes;
  }
  COVE_TRY(const auto languages, config::Languages::built_in());
  for (const auto& language : languages.all()) {
    if (config::installed(language, [&base](const std::string& path) { return there(base + "/" + path); }))
      contents.languages.push_back(language.name);
  }
  contents.kernels = there(base + kIpython);
  COVE_CHECK(write_manifest(base, contents));
  return contents;
}

}  // namespace cove::builder
