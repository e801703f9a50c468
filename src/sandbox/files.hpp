#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "sandbox/file_facts.hpp"
#include "sandbox/file_streams.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {

enum class Recursive : std::uint8_t { no, yes };
enum class Overwrite : std::uint8_t { no, yes };
enum class WriteMode : std::uint8_t { replace, append };
enum class Confined : std::uint8_t {
  no,
  to_workspace,  // a path that leads out of /workspace, through a link too, is Errc::denied with EXDEV
  to_directory,  // the same for the sandbox's own (SandboxRow::directory)
};

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
struct WriteOptions {
  std::uint32_t permissions = 0644;  // up to 0777
  WriteMode mode = WriteMode::replace;
};
struct ListOptions {
  std::uint64_t depth = 1;
  std::uint64_t max_entries = 0;
};
inline constexpr std::uint64_t kAnyDepth = 1000;
struct UploadLimits {
  std::uint64_t bytes = 0;
  std::uint64_t members = 0;
  std::uint64_t depth = 0;
  std::uint64_t ratio = 0;
  bool absolute_names = true;  // of members: taken as relative; false: refused
};
// What an archive has of a directory: everything, or only files and links to files, without entries for directories.
enum class ArchiveContent : std::uint8_t { everything, files };
// A file that a snapshot leaves out while it has this content.
struct KnownFile {
  std::string sha256;
  std::string path;  // relative to /workspace
};

// The files of one sandbox. All work is done inside it by the file helper, as its user and under its limits; paths are
// absolute. Its process limit reached is Errc::conflict, its disk full Errc::over_limit, its end Errc::not_found; an
// answer that makes no sense is Errc::io. Lives at least as long as the verb that is awaited, streams live on their
// own.
class SandboxFiles {
 public:
  // Once `abandoned` says true nobody waits any more: what goes on ends with Errc::unavailable. Changes that `actor`
  // asks for are acts of the journal.
  SandboxFiles(std::shared_ptr<Sandbox> sandbox, std::function<bool()> abandoned, Confined confined = Confined::no,
               journal::Actor actor = {})
      : sandbox_(std::move(sandbox)), abandoned_(std::move(abandoned)), confined_(confined), actor_(std::move(actor)) {}

  // Errc::invalid for what is no regular file.
  async::Task<Result<FileOutput>> read(std::string path, std::optional<ByteRange> range = std::nullopt) const;
  // Makes directories on the way. A whole new file replaces what is there, or nothing does.
  async::Task<Result<FileWriter>> write(std::string path, WriteOptions options) const;
  async::Task<Result<FileEntry>> write_all(std::string path, std::string content, WriteOptions options) const;

  async::Task<Result<Listing>> list(std::string path, ListOptions options) const;
  async::Task<Result<FileEntry>> stat(std::string path) const;
  async::Task<Result<FileEntry>> make_directory(std::string path) const;
  async::Task<Result<FileEntry>> rename(std::string from, std::string to, Overwrite overwrite) const;
  async::Task<Result<>> remove(std::string path, Recursive recursive) const;
  // Returns when changes from now on are seen.
  async::Task<Result<FileWatch>> watch(std::string path, Recursive recursive) const;

  // tar or tar.gz in, all or nothing; tar.gz out.
  async::Task<Result<ArchiveWriter>> upload(std::string directory, UploadLimits limits) const;
  // With ArchiveContent::files, Errc::not_found for what is no directory.
  async::Task<Result<FileOutput>> download(std::string path, ArchiveContent content = ArchiveContent::everything) const;

  // Files into /workspace. Directories on the way are made, no link is followed. Staged files have the time 0, files
  // that are put that of now.
  async::Task<Result<StageWriter>> stage() const;
  async::Task<Result<FileMarks>> put(std::vector<NewFile> files) const;
  // What was written below /workspace since then, without what is hidden.
  async::Task<Result<ChangedFiles>> changes(ChangesWanted wanted) const;
  // The files below /workspace that are not known. Waits a moment for processes that were killed to be gone.
  async::Task<Result<SnapshotReader>> snapshot(std::vector<KnownFile> known, SnapshotLimits limits) const;

 private:
  [[nodiscard]] std::shared_ptr<journal::Entry> begin_act(std::string verb, std::string path,
                                                          boost::json::object more = {}) const;
  async::Task<Result<FileHelperPtr>> start(std::vector<std::string> command) const;
  // Without input: the whole answer.
  async::Task<Result<std::string>> ask(std::vector<std::string> command) const;
  async::Task<Result<FileEntry>> ask_entry(std::vector<std::string> command) const;

  std::shared_ptr<Sandbox> sandbox_;
  std::function<bool()> abandoned_;
  Confined confined_;
  journal::Actor actor_;
};

}  // namespace cove::sandbox
