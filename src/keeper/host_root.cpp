#include "keeper/host_root.hpp"

#include "keeper/record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/id.hpp"
#include "base/io.hpp"
#include "keeper/embedded.hpp"

namespace cove::keeper {
namespace {

namespace fs = std::filesystem;

// What a sandbox gets of the host's /etc. Only what the world may read is copied, whatever stands here.
struct EtcEntry {
  const char* path;
  const char* why;
};
constexpr auto kFromHostEtc = std::to_array<EtcEntry>({
    {"alternatives", "/usr/bin/php, java and others are links through it"},
    {"ld.so.cache", "starts programs faster"},
    {"ld.so.conf", "libraries outside the default directories"},
    {"ld.so.conf.d", "the same"},
    {"ssl/certs", "who to trust; never ssl/private"},
    {"ssl/openssl.cnf", "OpenSSL refuses to start without it in places"},
    {"pki/tls/certs", "the same on other distributions"},
    {"ca-certificates.conf", "names the bundle"},
    {"java-11-openjdk", "the JDK keeps its configuration here"},
    {"java-17-openjdk", "the same"},
    {"java-21-openjdk", "the same"},
    {"php", "extensions are switched on here"},
    {"perl", "Net::libnet.cfg and friends"},
    {"matplotlibrc", "Debian's matplotlib reads it at import"},
    {"fonts", "for plots"},
    {"ImageMagick-6", "delegates and policy"},
    {"fish", "its default configuration"},
    {"zsh", "the same"},
    {"mime.types", "type guessing"},
    {"services", "getservbyname"},
    {"protocols", "getprotobyname"},
    {"debian_version", "what packages fit"},
    {"os-release", "the same"},
});

struct TextFile {
  const char* path;
  const char* content;
};
// The rest of /etc is the same in every sandbox on every host: it links no sandbox to another and tells nothing about
// the machine.
constexpr auto kGenerated = std::to_array<TextFile>({
    {"etc/passwd",
     "root:x:0:0:root:/root:/usr/sbin/nologin\n"
     "cove:x:1000:1000:cove:/home/cove:/bin/bash\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\ncove:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hostname", "cove\n"},
    {"etc/hosts", "127.0.0.1 localhost cove\n::1 localhost cove\n"},
    {"etc/resolv.conf", ""},
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
    {"etc/machine-id", "c07ec07ec07ec07ec07ec07ec07ec07e\n"},
    {"etc/timezone", "Etc/UTC\n"},
    {"etc/shells", "/bin/sh\n/bin/bash\n"},
});

constexpr auto kDirectories = std::to_array<const char*>(
    {"cove", "cove/bin", "cove/lib", "cove/python", "dev", "etc",       "home",    "opt",     "proc",    "root",
     "run",  "srv",      "tmp",      "usr",         "var", "var/cache", "var/lib", "var/log", "var/tmp", "workspace"});

struct Link {
  const char* path;
  const char* target;
};
constexpr auto kLinks = std::to_array<Link>({
    {"etc/mtab", "/proc/self/mounts"},
    {"etc/localtime", "/usr/share/zoneinfo/Etc/UTC"},
    {"var/run", "/run"},
});

// Since the usr merge these are links; elsewhere they are directories of their own.
constexpr auto kTopLevel = std::to_array<const char*>({"bin", "sbin", "lib", "lib32", "lib64", "libx32"});

class Fingerprint {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  void add_file(const std::string& path) {
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) return;
    add(fmt::format("{}:{}:{}:{}.{};", path, st.st_ino, st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec));
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

// Package managers touch their database with every change, so nested configuration files need no walk of their own.
std::string fingerprint() {
  Fingerprint print;
  print.add_file(fs::read_symlink("/proc/self/exe"));  // carries cove-init and the tools
  for (const auto* top : kTopLevel) print.add_file(std::string("/") + top);
  for (const auto& entry : kFromHostEtc) print.add_file(std::string("/etc/") + entry.path);
  for (const char* database : {"/var/lib/dpkg/status", "/var/lib/rpm", "/lib/apk/db/installed"})
    print.add_file(database);
  return print.text();
}

bool world_readable(const struct stat& st) {
  return (st.st_mode & S_IROTH) != 0;
}

Result<> write_new(const fs::path& path, std::string_view content, unsigned mode) {
  COVE_TRY(const auto fd, open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, mode));
  COVE_CHECK(write_all(fd.get(), content));
  if (::fchmod(fd.get(), mode) != 0) return fail_errno(errno, "chmod {}", path.string());
  return {};
}

Result<> copy_public(const fs::path& from, const fs::path& to) {
  struct stat st{};
  if (::lstat(from.c_str(), &st) != 0) return {};  // vanished, or this host never had it
  std::error_code ec;
  if (S_ISLNK(st.st_mode)) {
    fs::create_symlink(fs::read_symlink(from, ec), to, ec);
    return {};
  }
  if (!world_readable(st)) return {};
  if (S_ISREG(st.st_mode)) {
    COVE_TRY(const auto content, read_file_at(AT_FDCWD, from));
    return write_new(to, content, 0644);
  }
  if (!S_ISDIR(st.st_mode)) return {};
  fs::create_directory(to, ec);
  for (const auto& entry : fs::directory_iterator(from, ec)) {
    if (entry.path().extension() == ".gz") continue;  // alternatives has a link for every manual page
    COVE_CHECK(copy_public(entry.path(), to / entry.path().filename()));
  }
  return {};
}

Result<> build(const fs::path& root) {
  for (const auto* directory : kDirectories) {
    if (::mkdir((root / directory).c_str(), 0755) != 0)
      return fail_errno(errno, "make {}", (root / directory).string());
  }
  for (const auto& file : kGenerated) COVE_CHECK(write_new(root / file.path, file.content, 0644));
  for (const auto& link : kLinks) {
    if (::symlink(link.target, (root / link.path).c_str()) != 0) return fail_errno(errno, "link {}", link.path);
  }
  for (const auto* top : kTopLevel) {
    std::error_code ec;
    const fs::path host = fs::path("/") / top;
    if (fs::is_symlink(host, ec))
      fs::create_symlink(fs::read_symlink(host, ec), root / top, ec);
    else if (fs::is_directory(host, ec))
      fs::create_directory(root / top, ec);
  }
  for (const auto& entry : kFromHostEtc) {
    const auto to = root / "etc" / entry.path;
    std::error_code ec;
    fs::create_directories(to.parent_path(), ec);
    COVE_CHECK(copy_public(fs::path("/etc") / entry.path, to));
  }
  COVE_CHECK(write_new(root / std::string_view(jail::kInitPath).substr(1), embedded_init(), 0555));
  for (const auto& tool : embedded_tools()) COVE_CHECK(write_new(root / "cove/bin" / tool.name, tool.content, 0755));
  COVE_CHECK(write_new(root / "cove/lib/zygote.so", embedded_zygote(), 0755));
  for (const auto& file : embedded_python()) {
    const auto to = root / "cove/python" / file.path;
    std::error_code ec;
    fs::create_directories(to.parent_path(), ec);
    COVE_CHECK(write_new(to, file.content, 0644));
  }
  // `python` is python3, also where the host does not say so.
  if (::symlink("/usr/bin/python3", (root / "cove/bin/python").c_str()) != 0) return fail_errno(errno, "link python");
  return {};
}

// Roots of earlier builds or of a host that has changed since, unless someone still runs on one.
void sweep_old_roots(const fs::path& roots, const fs::path& kept) {
  std::error_code ec;
  // Sandboxes that outlive their keeper may stand on a root that nobody locks at this moment.
  if (read_record(roots.parent_path())) return;
  for (const auto& entry : fs::directory_iterator(roots, ec)) {
    const auto name = entry.path().filename().string();
    if (entry.path() == kept || !(name.starts_with("host-") || name.starts_with(".building-"))) continue;
    const UniqueFd lock(::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), ec);
  }
}

Result<> make_directories(const fs::path& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) return fail_errno(ec.value(), "make directory {}", path.string());
  return {};
}

}  // namespace

std::string default_state_dir() {
  if (const char* set = std::getenv("COVE_STATE_DIR"); set != nullptr && *set != '\0') return set;
  if (::geteuid() == 0) return "/var/lib/cove";
  if (const char* xdg = std::getenv("XDG_STATE_HOME"); xdg != nullptr && *xdg == '/') return std::string(xdg) + "/cove";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && *home == '/' ? home : "/tmp") + "/.local/state/cove";
}

Result<RootSource> prepare_host_root(const std::string& state_dir) {
  const fs::path roots = fs::path(state_dir) / "roots";
  const fs::path ready = roots / ("host-" + fingerprint());
  COVE_CHECK(make_directories(roots));
  struct stat st{};
  if (::stat(roots.c_str(), &st) != 0) return fail_errno(errno, "stat {}", roots.string());
  if (st.st_uid != ::geteuid() || (st.st_mode & 0022) != 0) {
    return fail(Errc::denied, fmt::format("{} belongs to or can be written by someone else; give another --state-dir",
                                          roots.string()));
  }
  if (::access(ready.c_str(), X_OK) != 0) {
    // Built aside and moved into place whole: a second starter sees it ready or not at all.
    const fs::path aside = roots / (".building-" + std::string(SandboxId::random().view()));
    COVE_CHECK(make_directories(aside));
    COVE_TRY(const auto building, open_at(AT_FDCWD, aside, O_RDONLY | O_DIRECTORY));
    ::flock(building.get(), LOCK_EX);  // what a builder that was killed left has no such lock, and is swept
    auto built = build(aside);
    if (built && ::rename(aside.c_str(), ready.c_str()) != 0 && errno != EEXIST && errno != ENOTEMPTY)
      built = fail_errno(errno, "move {} into place", ready.string());
    std::error_code ec;
    fs::remove_all(aside, ec);
    sweep_old_roots(roots, ready);
    if (!built)
      return fail(built.error().code, fmt::format("build the host root in {}: {}", state_dir, built.error().message));
  }
  RootSource root;
  root.lower_path = ready;
  COVE_TRY(root.lower_lock, open_at(AT_FDCWD, ready, O_RDONLY | O_DIRECTORY));
  if (::flock(root.lower_lock.get(), LOCK_SH) != 0) return fail_errno(errno, "lock {}", ready.string());
  root.trees.push_back({.host_path = "/usr", .target = "usr"});
  for (const auto* top : kTopLevel) {
    std::error_code ec;
    const fs::path host = fs::path("/") / top;
    if (!fs::is_symlink(host, ec) && fs::is_directory(host, ec))
      root.trees.push_back({.host_path = host, .target = top});
  }
  return root;
}

}  // namespace cove::keeper
