#include "builder/bootstrap.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/io.hpp"
#include "base/text.hpp"

namespace cove::builder {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTool = "/usr/bin/mmdebstrap";
constexpr const char* kMergedUsr = "/usr/share/mmdebstrap/hooks/merged-usr";
constexpr rlim_t kLargestFile = rlim_t{8} << 30;

// Nobody in a sandbox reads these, and they are a third of a small root.
constexpr const char* kLeftOut[] = {"/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*"};

std::string release_of_host() {
  const auto text = read_file_at(AT_FDCWD, "/etc/os-release");
  for (std::string_view rest = text ? std::string_view(*text) : std::string_view(); !rest.empty();) {
    auto line = take_until(rest, '\n');
    if (take_until(line, '=') == "VERSION_CODENAME") return std::string(line);
  }
  return {};
}

// As apt finds them (sources.list(5)).
std::vector<std::string> sources_of_host() {
  std::vector<std::string> sources;
  std::error_code failed;
  if (fs::file_size("/etc/apt/sources.list", failed) > 0 && !failed) sources.emplace_back("/etc/apt/sources.list");
  for (const auto& entry : fs::directory_iterator("/etc/apt/sources.list.d", failed)) {
    const auto extension = entry.path().extension();
    if (extension == ".list" || extension == ".sources") sources.push_back(entry.path());
  }
  std::ranges::sort(sources);
  return sources;
}

// Where the host's apt is told to go through a proxy, a build goes there too.
std::vector<std::string> proxies_of_host() {
  std::vector<std::string> settings;
  const std::unique_ptr<FILE, int (*)(FILE*)> answer(
      ::popen("/usr/bin/apt-config dump --format '%f \"%v\";%n' Acquire::http::Proxy Acquire::https::Proxy 2>/dev/null",
              "re"),
      [](FILE* file) { return ::pclose(file); });
  std::array<char, 1024> line;
  while (answer && std::fgets(line.data(), line.size(), answer.get()) != nullptr) {
    std::string_view setting(line.data());
    if (setting.ends_with('\n') && setting.starts_with("Acquire::"))
      settings.emplace_back(setting.substr(0, setting.size() - 1));
  }
  return settings;
}

}  // namespace

Result<std::vector<std::string>> bootstrap_command(const std::string& target,
                                                   const std::vector<std::string>& packages) {
  if (::access(kTool, X_OK) != 0)
    return fail(Errc::unsupported, "this host cannot build templates: install the package mmdebstrap");
  const auto release = release_of_host();
  const auto sources = sources_of_host();
  if (release.empty() || sources.empty())
    return fail(Errc::unsupported, "this host cannot build templates: it has no apt sources to build from");
  std::vector<std::string> command{
      kTool,
      "--mode=root",
      "--variant=essential",
      "--format=directory",
      fmt::format("--hook-dir={}", kMergedUsr),
      R"(--aptopt=APT::Install-Recommends "false")",
      R"(--aptopt=APT::Cmd::Pattern-Only "true")",  // a name is a name, never a pattern that fits half of Debian
      R"(--aptopt=Acquire::Languages "none")",
      "--dpkgopt=force-unsafe-io",  // what a crash leaves half-written is thrown away
  };
  for (const auto& setting : proxies_of_host()) command.push_back(fmt::format("--aptopt={}", setting));
  for (const auto* pattern : kLeftOut) command.push_back(fmt::format("--dpkgopt=path-exclude={}", pattern));
  if (!packages.empty()) {
    command.push_back(fmt::format("--include={}", fmt::join(packages, ",")));
    // One that does not exist is said before anything is installed. What is in these names no shell acts on.
    command.push_back(
        fmt::format("--extract-hook=APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --simulate -qq install {} >/dev/null",
                    fmt::join(packages, " ")));
  }
  command.push_back(release);
  command.push_back(target);
  command.insert(command.end(), sources.begin(), sources.end());
  return command;
}

int run_bootstrap(const std::vector<std::string>& command, int log) {
  std::vector<std::string> environment{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                       "LANG=C.UTF-8", "HOME=/nonexistent", "TMPDIR=/tmp",
                                       "DEBIAN_FRONTEND=noninteractive"};
  // The other way to tell apt of a proxy.
  for (const char* name : {"http_proxy", "https_proxy", "no_proxy"}) {
    if (const char* value = std::getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
  }
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
    out.push_back(nullptr);
    return out;
  };
  ::signal(SIGPIPE, SIG_DFL);
  const rlimit largest{.rlim_cur = kLargestFile, .rlim_max = kLargestFile};
  ::setrlimit(RLIMIT_FSIZE, &largest);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(log, 1) < 0 || ::dup2(log, 2) < 0 || ::chdir("/") != 0) return 125;
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execve(command.front().c_str(), pointers(command).data(), pointers(environment).data());
  return 127;
}

}  // namespace cove::builder
