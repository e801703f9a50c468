#include "cli/client/binds.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/io.hpp"
#include "base/sha256.hpp"
#include "cli/client/archive_pipe.hpp"
#include "cli/client/client_options.hpp"
#include "files/location.hpp"

namespace cove::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// A directory that goes with this object.
class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> make() {
    std::error_code failed;
    auto path = fs::temp_directory_path(failed).string() + "/cove-down-XXXXXX";
    if (failed || ::mkdtemp(path.data()) == nullptr) return fail_errno(errno, "make a temporary directory");
    return TemporaryDirectory(std::move(path));
  }
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory() {
    std::error_code failed;
    if (!path_.empty()) fs::remove_all(path_, failed);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

bool same_content(int a, int b) {
  std::array<char, 65536> left;
  std::array<char, 65536> right;
  while (true) {
    const auto n = ::read(a, left.data(), left.size());
    if (n < 0) return false;
    if (n == 0) return ::read(b, right.data(), 1) == 0;
    std::size_t got = 0;
    while (got < static_cast<std::size_t>(n)) {
      const auto m = ::read(b, right.data() + got, static_cast<std::size_t>(n) - got);
      if (m <= 0) return false;
      got += static_cast<std::size_t>(m);
    }
    if (!std::equal(left.begin(), left.begin() + n, right.begin())) return false;
  }
}

// Whether this file is on the host as it is in the copy.
bool is_unchanged(int host, const std::string& path, const fs::path& copy) {
  const auto there = files::open_beneath(host, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  const auto here = open_at(AT_FDCWD, copy, O_RDONLY);
  struct stat st{};
  return there && here && ::fstat(there->get(), &st) == 0 && S_ISREG(st.st_mode) &&
         same_content(there->get(), here->get());
}

// Leaves in the copy only what is to be written.
Result<std::size_t> drop_unchanged(const std::string& copy, const std::string& host) {
  COVE_TRY(const auto root, open_at(AT_FDCWD, host, O_RDONLY | O_DIRECTORY));
  std::vector<fs::path> dropped;
  std::size_t left = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(copy, failed), end; !failed && at != end; at.increment(failed)) {
    const auto path = at->path().lexically_relative(copy).string();
    if (at->symlink_status().type() == fs::file_type::directory) continue;
    const bool regular = at->symlink_status().type() == fs::file_type::regular;
    if (!regular || is_unchanged(root.get(), path, at->path()))
      dropped.push_back(at->path());
    else
      ++left;
  }
  if (failed) return fail(Errc::io, fmt::format("read {}: {}", copy, failed.message()));
  for (const auto& path : dropped) fs::remove(path, failed);
  return left;
}

Result<std::string> records() {
  const char* xdg = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (xdg != nullptr && *xdg == '/') return std::string(xdg) + "/cove/up";
  if (home != nullptr && *home == '/') return std::string(home) + "/.local/state/cove/up";
  return fail(Errc::invalid,
              "--bind needs HOME or XDG_STATE_HOME: what was copied in is remembered there for cove down");
}

Result<std::string> record_path(const std::string& url, const std::string& id) {
  COVE_TRY(const auto directory, records());
  Sha256 name;
  name.add(url + "\n" + id);
  return directory + "/" + name.hex() + ".json";
}

}  // namespace

Result<Bind> parse_bind(std::string_view text, const std::string& root) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return fail(Errc::invalid, fmt::format("--bind: '{}' is not HOST:PATH", text));
  const fs::path inside = fs::path(text.substr(colon + 1)).lexically_normal();
  if (inside.is_absolute() || (!inside.empty() && *inside.begin() == ".."))
    return fail(Errc::invalid, fmt::format("--bind: {} must be relative to {} and stay in it", inside.string(), root));
  std::error_code failed;
  const auto host = fs::absolute(fs::path(text.substr(0, colon)), failed);
  if (failed) return fail(Errc::invalid, fmt::format("--bind: {}", failed.message()));
  auto place = (fs::path(root) / inside).lexically_normal().string();
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  if (place.ends_with("/.")) place.resize(place.size() - 2);
  return Bind{.host = host.lexically_normal().string(), .inside = place};
}

Result<> copy_in(client::Client& client, const std::string& id, const Bind& bind) {
  std::error_code failed;
  fs::create_directories(bind.host, failed);
  if (failed) return fail(Errc::io, fmt::format("make directory {}: {}", bind.host, failed.message()));
  COVE_TRY(const auto pipe, PackPipe::start(bind.host));
  const client::Upload upload{.source = [&](std::span<char> room) { return pipe->read(room); }, .size = std::nullopt};
  const auto target = client::sandbox_target(id, "/files/upload").with("dest", bind.inside).text();
  COVE_CHECK(client.ask({.method = "POST", .target = target, .content_type = "application/x-tar"}, &upload));
  return {};
}

Result<std::size_t> copy_back(client::Client& client, const std::string& id, const Bind& bind) {
  COVE_TRY(const auto copy, TemporaryDirectory::make());
  COVE_TRY(const auto unpack, UnpackPipe::start(copy.path()));
  const client::Download download{.begin = [](auto) { return Result<>(); },
                                  .take = [&](std::string_view bytes) { return unpack->write(bytes); }};
  const auto target = client::sandbox_target(id, "/files/download").with("src", bind.inside).text();
  COVE_CHECK(client.ask({.target = target}, nullptr, &download));
  COVE_CHECK(unpack->finish());
  std::error_code failed;
  fs::create_directories(bind.host, failed);
  COVE_TRY(const auto changed, drop_unchanged(copy.path(), bind.host));
  if (changed == 0) return changed;
  // Through an archive once more: it is unpacked as a whole, and never through a link.
  COVE_TRY(const auto pack, PackPipe::start(copy.path(), PackPipe::Directories::without));
  COVE_TRY(const auto place, UnpackPipe::start(bind.host));
  std::array<char, 65536> room;
  while (true) {
    COVE_TRY(const auto n, pack->read(room));
    if (n == 0) break;
    COVE_CHECK(place->write({room.data(), n}));
  }
  return place->finish();
}

Result<> remember(const BindRecord& record) {
  COVE_TRY(const auto path, record_path(record.url, record.id));
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  if (failed)
    return fail(Errc::io,
                fmt::format("make directory {}: {}", fs::path(path).parent_path().string(), failed.message()));
  json::array binds;
  for (const auto& bind : record.binds) binds.push_back({{"host", bind.host}, {"inside", bind.inside}});
  const json::object content{{"url", record.url}, {"id", record.id}, {"pod", record.pod}, {"binds", std::move(binds)}};
  COVE_TRY(auto file, FileInPlace::create(path, 0600));
  COVE_CHECK(write_all(file.fd(), json::serialize(content) + "\n"));
  return file.commit();
}

Result<BindRecord> remembered(const std::string& url, const std::string& id) {
  BindRecord record{.url = url, .id = id, .pod = {}, .binds = {}};
  const auto path = record_path(url, id);
  if (!path || ::access(path->c_str(), F_OK) != 0) return record;
  COVE_TRY(const auto text, read_file_at(AT_FDCWD, *path));
  COVE_TRY(const auto content, object_of(text));
  record.pod = text_of(content, "pod");
  const auto* binds = content.if_contains("binds");
  if (binds == nullptr || !binds->is_array()) return record;
  for (const auto& bind : binds->as_array()) {
    if (bind.is_object())
      record.binds.push_back(
          {.host = text_of(bind.as_object(), "host"), .inside = text_of(bind.as_object(), "inside")});
  }
  return record;
}

void forget(const std::string& url, const std::string& id) {
  if (const auto path = record_path(url, id)) ::unlink(path->c_str());
}

}  // namespace cove::cli
