#include "cli/client/transfer_commands.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/io.hpp"
#include "cli/client/archive_pipe.hpp"
#include "cli/client/progress.hpp"
#include "cli/console.hpp"
#include "cli/interrupt.hpp"

namespace cove::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using client::sandbox_target;

struct TransferOptions : ClientOptions {
  bool quiet = false;
};

struct UploadArguments : TransferOptions {
  std::string id;
  Words sources;
  std::string dest = "/workspace";
};
struct DownloadArguments : TransferOptions {
  std::string id;
  std::string src = "/workspace";
  std::string output;
  std::string extract;
};
struct CopyArguments : TransferOptions {
  std::string from;
  std::string to;
};

// One command's transfers, with one server.
class Transfer {
 public:
  Transfer(client::Client& client, const TransferOptions& options) : client_(client), options_(options) {}

  // A file of this machine, or standard input, becomes a file in the sandbox.
  Result<> put_file(const std::string& path, const RemotePath& to) {
    UniqueFd opened;
    std::optional<std::uint64_t> size;
    std::string mode = "0644";
    if (path != "-") {
      COVE_TRY(opened, open_at(AT_FDCWD, path, O_RDONLY));
      struct stat st{};
      if (::fstat(opened.get(), &st) != 0) return fail_errno(errno, "stat {}", path);
      if (S_ISREG(st.st_mode)) size = static_cast<std::uint64_t>(st.st_size);
      mode = fmt::format("{:04o}", st.st_mode & 0777);
    }
    Progress progress(path, show());
    progress.expect(size);
    const int fd = opened ? opened.get() : STDIN_FILENO;
    const client::Upload upload{.source = [&](std::span<char> room) -> Result<std::size_t> {
                                  ssize_t n = -1;
                                  do {
                                    n = ::read(fd, room.data(), room.size());
                                  } while (n < 0 && errno == EINTR);
                                  if (n < 0) return fail_errno(errno, "read {}", path);
                                  progress.add(static_cast<std::uint64_t>(n));
                                  return static_cast<std::size_t>(n);
                                },
                                .size = size};
    const auto target = sandbox_target(to.id, "/files").with("path", to.path).with("mode", mode).text();
    COVE_TRY(const auto answer,
             client_.ask({.method = "PUT", .target = target, .content_type = "application/octet-stream"}, &upload));
    return options_.json ? put_line(answer.body) : Result<>();
  }

  // What is in a directory of this machine goes into one of the sandbox.
  Result<> put_directory(const std::string& path, const RemotePath& to) {
    COVE_TRY(const auto pipe, PackPipe::start(fs::absolute(path)));
    Progress progress(path, show());
    const client::Upload upload{.source = [&](std::span<char> room) -> Result<std::size_t> {
                                  COVE_TRY(const auto n, pipe->read(room));
                                  progress.add(n);
                                  return n;
                                },
                                .size = std::nullopt};
    const auto target = sandbox_target(to.id, "/files/upload").with("dest", to.path).text();
    COVE_TRY(const auto answer,
             client_.ask({.method = "POST", .target = target, .content_type = "application/x-tar"}, &upload));
    return options_.json ? put_line(answer.body) : Result<>();
  }

  Result<> get_file(const RemotePath& from, const std::string& path, unsigned mode) {
    return get_to_file(sandbox_target(from.id, "/files").with("path", from.path).text(), from.path, path, mode);
  }

  Result<> get_archive(const RemotePath& from, const std::string& path) {
    return get_to_file(sandbox_target(from.id, "/files/download").with("src", from.path).text(), from.path, path, 0666);
  }

  Result<> get_directory(const RemotePath& from, const std::string& path) {
    std::unique_ptr<UnpackPipe> pipe;  // not before the server has said that there is something to unpack
    Progress progress(from.path, show());
    const client::Download download{.begin = [&](auto) -> Result<> {
                                      COVE_TRY(pipe, UnpackPipe::start(fs::absolute(path)));
                                      return {};
                                    },
                                    .take =
                                        [&](std::string_view bytes) {
                                          progress.add(bytes.size());
                                          return pipe->write(bytes);
                                        }};
    const auto target = sandbox_target(from.id, "/files/download").with("src", from.path).text();
    COVE_TRY(const auto answer, client_.ask({.target = target}, nullptr, &download));
    COVE_TRY(const auto count, pipe->finish());
    return options_.json ? put_line(json::serialize(json::object{{"path", path}, {"files", count}})) : Result<>();
  }

  // The entry at a path in the sandbox; none when nothing is there.
  Result<std::optional<json::object>> stat(const RemotePath& at) {
    COVE_TRY(const auto answer,
             client_.send({.target = sandbox_target(at.id, "/files/stat").with("path", at.path).text()}));
    // No such sandbox is a 404 too, and an error whatever is asked for.
    if (answer.status == 404) {
      COVE_TRY(const auto sandbox, client_.ask({.target = sandbox_target(at.id).text()}));
      return std::optional<json::object>();
    }
    COVE_CHECK(client::judged(client_.options(), answer));
    COVE_TRY(auto entry, object_of(answer.body));
    return std::optional(std::move(entry));
  }

 private:
  [[nodiscard]] ShowProgress show() const { return options_.quiet ? ShowProgress::never : ShowProgress::when_terminal; }

  Result<> get_to_file(const std::string& target, const std::string& what, const std::string& path, unsigned mode) {
    std::optional<FileInPlace> file;
    Progress progress(what, show());
    const client::Download download{.begin = [&](std::optional<std::uint64_t> length) -> Result<> {
                                      progress.expect(length);
                                      COVE_TRY(auto created, FileInPlace::create(path, mode));
                                      file.emplace(std::move(created));
                                      return {};
                                    },
                                    .take =
                                        [&](std::string_view bytes) {
                                          progress.add(bytes.size());
                                          return write_all(file->fd(), bytes);
                                        }};
    COVE_TRY(const auto answer, client_.ask({.target = target}, nullptr, &download));
    COVE_CHECK(file->commit());
    if (!options_.json || path == "-") return {};
    return put_line(json::serialize(json::object{{"path", path}, {"bytes", progress.done()}}));
  }

  client::Client& client_;
  const TransferOptions& options_;
};

// "name" of "a/name" and "a/name/"; "" of "." and "/".
std::string last_name(const std::string& path) {
  auto normal = fs::path(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  const auto name = normal.filename().string();
  return name == "." || name == ".." ? "" : name;
}

std::string joined(const std::string& directory, const std::string& name) {
  if (name.empty()) return directory;
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

bool contents_only(const std::string& path) {
  return path == "." || path.ends_with("/.");
}

bool is_directory(const std::string& path) {
  std::error_code ec;
  return path != "-" && fs::is_directory(path, ec);
}

// Where something called `name` lands when it is copied to `to`: in it if it is a directory, else as it.
Result<RemotePath> landing(Transfer& transfer, RemotePath to, const std::string& name) {
  if (to.path.empty()) to.path = "/workspace";
  COVE_TRY(const auto there, transfer.stat(to));
  const bool directory = there && text_of(*there, "type") == "directory";
  if (directory || to.path.ends_with('/')) to.path = joined(to.path, name);
  return to;
}

Result<> copy_in(Transfer& transfer, const std::string& from, const RemotePath& to) {
  std::error_code ec;
  if (from != "-" && !fs::exists(from, ec))
    return fail(Errc::not_found, fmt::format("{}: no such file or directory", from));
  if (!is_directory(from)) {
    COVE_TRY(const auto place, landing(transfer, to, from == "-" ? "" : last_name(from)));
    return transfer.put_file(from, place);
  }
  if (contents_only(from))
    return transfer.put_directory(from, {.id = to.id, .path = to.path.empty() ? "/workspace" : to.path});
  COVE_TRY(const auto place, landing(transfer, to, last_name(fs::absolute(from))));
  return transfer.put_directory(from, place);
}

Result<> copy_out(Transfer& transfer, RemotePath from, const std::string& to) {
  if (from.path.empty()) from.path = "/workspace";
  COVE_TRY(const auto there, transfer.stat(from));
  if (!there) return fail(Errc::not_found, fmt::format("{}:{}: no such file or directory", from.id, from.path));
  if (text_of(*there, "type") == "directory") {
    if (to == "-") return transfer.get_archive(from, to);
    const bool inside = is_directory(to) && !contents_only(from.path);
    return transfer.get_directory(from, inside ? joined(to, last_name(from.path)) : to);
  }
  unsigned mode = 0666;
  if (const auto text = text_of(*there, "mode"); !text.empty())
    mode = static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 8)) & 0777U;
  const bool inside = is_directory(to) || to.ends_with('/');
  return transfer.get_file(from, inside ? joined(to, last_name(from.path)) : to, mode);
}

Result<> copy(client::Client& client, const CopyArguments& arguments) {
  Transfer transfer(client, arguments);
  const auto from = remote_path(arguments.from);
  const auto to = remote_path(arguments.to);
  if (from && to)
    return fail(Errc::invalid,
                "one side must be on this machine: to copy between sandboxes, copy out of one and into the other");
  if (!from && !to) return fail(Errc::invalid, "one side must be in a sandbox, such as demo:/workspace/data.csv");
  return to ? copy_in(transfer, arguments.from, *to) : copy_out(transfer, *from, arguments.to);
}

Result<> upload(client::Client& client, const UploadArguments& arguments) {
  Transfer transfer(client, arguments);
  for (const auto& source : arguments.sources) {
    std::error_code ec;
    if (!fs::exists(source, ec)) return fail(Errc::not_found, fmt::format("{}: no such file or directory", source));
  }
  for (const auto& source : arguments.sources) {
    const auto name = contents_only(source) ? "" : last_name(fs::absolute(source));
    const RemotePath to{.id = arguments.id, .path = joined(arguments.dest, name)};
    COVE_CHECK(is_directory(source) ? transfer.put_directory(source, to) : transfer.put_file(source, to));
  }
  return {};
}

Result<> download(client::Client& client, const DownloadArguments& arguments) {
  Transfer transfer(client, arguments);
  const RemotePath from{.id = arguments.id, .path = arguments.src};
  if (!arguments.extract.empty()) return transfer.get_directory(from, arguments.extract);
  if (!arguments.output.empty()) return transfer.get_archive(from, arguments.output);
  auto name = arguments.id;
  std::ranges::replace(name, '/', '_');
  const auto path = name + ".tar.gz";
  COVE_CHECK(transfer.get_archive(from, path));
  if (!arguments.json && !arguments.quiet) tell("{}", path);
  return {};
}

template <typename Arguments>
void add(Commands& commands, App* command, const char* words, std::shared_ptr<Arguments> a,
         Result<> (*run)(client::Client&, const Arguments&)) {
  command->add_flag("-q,--quiet", a->quiet, "Show no progress bar")->group("Output");
  describe(*command, *a, words);
  commands.push_back({command, [a, run](const AfterDashes&) {
                        Interrupt interrupt;
                        auto client = connect(*a, {.interrupt_fd = interrupt.fd()});
                        const auto done = client ? run(*client, *a) : Result<>(tl::unexpected<Error>(client.error()));
                        return done ? 0 : report_error(*a, done.error());
                      }});
}

}  // namespace

std::optional<RemotePath> remote_path(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || text.starts_with('.') || text.starts_with('/'))
    return std::nullopt;
  if (text.substr(0, colon).find('/') != std::string_view::npos) return std::nullopt;
  return RemotePath{.id = std::string(text.substr(0, colon)), .path = std::string(text.substr(colon + 1))};
}

void add_transfer_commands(App& app, Commands& commands) {
  {
    auto* command = app.add_subcommand("cp", "Copy a file or directory into or out of a sandbox");
    const auto a = std::make_shared<CopyArguments>();
    command->add_option("source", a->from, "Path, ID:PATH, or - for standard input")->required();
    command->add_option("destination", a->to, "ID:PATH, path, or - for standard output")->required();
    command->footer(
        "If the destination is an existing directory, the source is copied into it. DIR/. copies the contents of DIR.\n"
        "Examples:\n"
        "  cove cp data.csv demo:/workspace/\n"
        "  cove cp src demo:project\n"
        "  cove cp demo:out/plot.png .\n"
        "  cove cp demo:/workspace/log.txt - | less");
    add(commands, command, "SOURCE DESTINATION", a, copy);
  }
  {
    auto* command = app.add_subcommand("upload", "Copy files and directories into a sandbox");
    const auto a = std::make_shared<UploadArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("sources", a->sources, "Files and directories; DIR/. for the contents of DIR")
        ->required()
        ->type_name("PATH…");
    command->add_option("--dest", a->dest, "Destination directory; created if missing")->capture_default_str();
    command->footer(
        "Examples:\n  cove upload demo main.py data/\n  cove upload demo ./project/. --dest /workspace/app");
    add(commands, command, "ID PATH…", a, upload);
  }
  {
    auto* command = app.add_subcommand("download", "Download files from a sandbox, as an archive or unpacked");
    const auto a = std::make_shared<DownloadArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->add_option("--src", a->src, "Directory or file to download")->capture_default_str();
    auto* output = command->add_option(
        "-o,--output", a->output, "Write the tar.gz archive to this file; - for standard output (default: ID.tar.gz)");
    command->add_option("--extract", a->extract, "Unpack the archive into this directory")->excludes(output);
    command->footer(
        "Examples:\n  cove download demo --extract results\n  cove download demo --src /workspace/out -o - | tar tz");
    add(commands, command, "ID", a, download);
  }
}

}  // namespace cove::cli
