#include "host/root_skeleton.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "base/io.hpp"
#include "host/embedded.hpp"
#include "jail/plan.hpp"

namespace cove::host {
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
    // Answered by the egress process where there is a network. Where there is none, nobody does, and "files" comes last
    // once more, so that a name is unknown for good and not for the moment, which would invite to try again.
    {"etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n"},
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns [TRYAGAIN=continue UNAVAIL=continue] files\n"
     "services: files\nprotocols: files\n"},
    // The index is none, and says so where pip shows it (languages/stand-ins/packages.sh). Debian's mark of "managed by
    // apt" is meant for people's machines.
    {"etc/pip.conf",
     "[global]\nindex-url = file:///this-sandbox-has-no-network/packages-come-through-cove-install\nretries = 0\n"
     "disable-pip-version-check = true\nbreak-system-packages = true\n"},
    {"etc/machine-id", "c07ec07ec07ec07ec07ec07ec07ec07e\n"},
    {"etc/timezone", "Etc/UTC\n"},
    {"etc/shells", "/bin/sh\n/bin/bash\n"},
});

constexpr auto kDirectories = std::to_array<const char*>(
    {"app", "data", "mnt",       "cove",    "cove/bin", "cove/stand-ins", "cove/lib", "cove/python", "cove/javascript",
     "dev", "etc",  "home",      "opt",     "proc",     "root",           "run",      "srv",         "tmp",
     "usr", "var",  "var/cache", "var/lib", "var/log",  "var/tmp",        "workspace"});

// What /cove/stand-ins, in front of PATH, has: programs that elsewhere ask the host or the network.
struct StandIn {
  const char* tool;                  // in /cove/bin
  std::array<const char*, 8> names;  // fewer: the rest is null
};
constexpr StandIn kStandIns[] = {
    {"stand-in-facts", {"free", "htop", "lscpu", "netstat", "ps", "ss", "top", "uptime"}},
    {"stand-in-network", {"curl", "git", "wget"}},
    {"stand-in-runtimes", {"java", "javac", "node"}},
    {"stand-in-packages", {"apt", "apt-get", "npm", "npx", "pip", "pip3"}},
};

struct Link {
  const char* path;
  const char* target;
};
constexpr auto kLinks = std::to_array<Link>({
    {"etc/mtab", "/proc/self/mounts"},
    {"etc/localtime", "/usr/share/zoneinfo/Etc/UTC"},
    {"var/run", "/run"},
});

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

// Of an image everything that the world may read, where nothing stands yet: what packages put there is what they need.
Result<> copy_etc_of_image(const fs::path& image, const fs::path& root) {
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(image / "etc", ec)) {
    const auto name = entry.path().filename();
    if (name == "apt" || fs::exists(fs::symlink_status(root / "etc" / name, ec))) continue;
    COVE_CHECK(copy_public(entry.path(), root / "etc" / name));
  }
  return {};
}

Result<> copy_etc_listed(const fs::path& from, const fs::path& root) {
  for (const auto& entry : kFromHostEtc) {
    const auto to = root / "etc" / entry.path;
    std::error_code ec;
    fs::create_directories(to.parent_path(), ec);
    COVE_CHECK(copy_public(from / "etc" / entry.path, to));
  }
  return {};
}

}  // namespace

std::vector<std::string> listed_of_etc() {
  std::vector<std::string> paths;
  for (const auto& entry : kFromHostEtc) paths.emplace_back(entry.path);
  return paths;
}

Result<> make_lower(const std::string& lower, const std::string& from_root, EtcChoice choice) {
  const fs::path root = lower;
  const fs::path from = from_root;
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
    const fs::path original = from / top;
    if (fs::is_symlink(original, ec))
      fs::create_symlink(fs::read_symlink(original, ec), root / top, ec);
    else if (fs::is_directory(original, ec))
      fs::create_directory(root / top, ec);
  }
  return choice == EtcChoice::listed ? copy_etc_listed(from, root) : copy_etc_of_image(from, root);
}

Result<> add_programs(const std::string& lower) {
  const fs::path root = lower;
  COVE_CHECK(write_new(root / std::string_view(jail::kInitPath).substr(1), embedded_init(), 0555));
  for (const auto& tool : embedded_tools()) COVE_CHECK(write_new(root / "cove/bin" / tool.name, tool.content, 0755));
  COVE_CHECK(write_new(root / "cove/lib/zygote.so", embedded_zygote(), 0755));
  for (const auto& file : embedded_runtimes()) {
    const auto to = root / "cove" / file.directory / file.path;
    std::error_code ec;
    fs::create_directories(to.parent_path(), ec);
    COVE_CHECK(write_new(to, file.content, 0644));
  }
  // `python` is python3, also where the host does not say so.
  if (::symlink("/usr/bin/python3", (root / "cove/bin/python").c_str()) != 0) return fail_errno(errno, "link python");
  for (const auto& [tool, names] : kStandIns) {
    for (const auto* name : names) {
      if (name == nullptr) break;
      if (::symlink((std::string("/cove/bin/") + tool).c_str(), (root / "cove/stand-ins" / name).c_str()) != 0)
        return fail_errno(errno, "link {}", name);
    }
  }
  return {};
}

}  // namespace cove::host
