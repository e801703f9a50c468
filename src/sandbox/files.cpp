#include "sandbox/files.hpp"

#include "async/deadline.hpp"
#include "base/text.hpp"
#include "sandbox/file_helper.hpp"
#include "sandbox/file_protocol.hpp"
#include "sandbox/journal_outcome.hpp"

namespace cove::sandbox {
namespace {

namespace protocol = file_protocol;
using protocol::Command;
using wire::FileVerb;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxChanges = 100;
constexpr std::chrono::seconds kSlotTimeout{3};
constexpr std::chrono::milliseconds kSlotInterval{10};

}  // namespace

// `more`: what else it takes to do it again.
std::shared_ptr<journal::Entry> SandboxFiles::begin_act(std::string verb, std::string path,
                                                        boost::json::object more) const {
  if (actor_.door.empty()) return nullptr;
  journal::Act act{.kind = journal::kind::kFile, .summary = verb + " " + path, .brief = true};
  act.detail = more;
  act.detail["verb"] = verb;
  act.detail["path"] = replace_invalid_utf8(path);
  act.repeat = std::move(more);
  act.repeat["verb"] = std::move(verb);
  act.repeat["path"] = std::move(path);
  if (confined_ != Confined::no)
    act.repeat["confined"] = confined_ == Confined::to_workspace ? "workspace" : "directory";
  return sandbox_->begin_act(actor_, std::move(act));
}

async::Task<Result<FileHelperPtr>> SandboxFiles::start(Command command) const {
  if (confined_ != Confined::no) {
    const auto root = confined_ == Confined::to_workspace ? workspace_path("") : sandbox_->row().directory;
    command.insert(command.begin(), {std::string(wire::kWithinOption), root});
  }
  auto helper = co_await FileHelper::start(sandbox_, std::move(command), abandoned_);
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  co_return FileHelperPtr(helper->release());
}

async::Task<Result<std::string>> SandboxFiles::ask(Command command) const {
  const auto helper = co_await start(std::move(command));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  (*helper)->end_input();
  co_return co_await (*helper)->finish();
}

async::Task<Result<FileEntry>> SandboxFiles::ask_entry(Command command) const {
  const auto answer = co_await ask(std::move(command));
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  co_return protocol::decode_entry(*answer);
}

async::Task<Result<FileOutput>> SandboxFiles::read(std::string path, std::optional<ByteRange> range) const {
  auto command = protocol::command(FileVerb::read, std::move(path));
  if (range) {
    command.push_back(std::to_string(range->offset));
    command.push_back(std::to_string(range->length));
  }
  auto helper = co_await start(std::move(command));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  (*helper)->end_input();
  const auto line = co_await (*helper)->read_line();
  if (!line) co_return tl::unexpected<Error>(line.error());
  const auto facts = protocol::decode_facts(*line);
  if (!facts) co_return tl::unexpected<Error>(facts.error());
  co_return FileOutput(std::move(*helper), *facts);
}

async::Task<Result<FileWriter>> SandboxFiles::write(std::string path, WriteOptions options) const {
  const bool append = options.mode == WriteMode::append;
  boost::json::object more{{"permissions", options.permissions}};
  if (append) more["append"] = true;
  auto entry = begin_act("write", path, std::move(more));
  auto command = protocol::command(FileVerb::write, std::move(path));
  command.push_back(fmt::format("{:o}", options.permissions));
  if (append) protocol::add(command, wire::kAppendWord);
  auto helper = co_await start(std::move(command));
  if (!helper && entry) entry->end(outcome_of(helper.error()));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  co_return FileWriter(std::move(*helper), std::move(entry));
}

async::Task<Result<FileEntry>> SandboxFiles::write_all(std::string path, std::string content,
                                                       WriteOptions options) const {
  auto writer = co_await write(std::move(path), options);
  if (!writer) co_return tl::unexpected<Error>(writer.error());
  // One that takes no more has found fault; finish() says which.
  if (!content.empty()) [[maybe_unused]]
    const auto taken = co_await writer->write(std::move(content));
  co_return co_await writer->finish();
}

async::Task<Result<Listing>> SandboxFiles::list(std::string path, ListOptions options) const {
  auto command = protocol::command(FileVerb::list, std::move(path));
  command.push_back(std::to_string(options.depth));
  command.push_back(std::to_string(options.max_entries));
  auto answer = co_await ask(std::move(command));
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  co_return protocol::decode_listing(std::move(*answer));
}

async::Task<Result<FileEntry>> SandboxFiles::stat(std::string path) const {
  return ask_entry(protocol::command(FileVerb::stat, std::move(path)));
}

async::Task<Result<FileEntry>> SandboxFiles::make_directory(std::string path) const {
  const auto entry = begin_act("mkdir", path);
  auto made = co_await ask_entry(protocol::command(FileVerb::mkdir, std::move(path)));
  if (entry) entry->end(outcome_of(made));
  co_return made;
}

async::Task<Result<FileEntry>> SandboxFiles::rename(std::string from, std::string to, Overwrite overwrite) const {
  const auto entry =
      begin_act("rename", from, {{"to", replace_invalid_utf8(to)}, {"overwrite", overwrite == Overwrite::yes}});
  auto command = protocol::command(FileVerb::rename, std::move(from));
  protocol::add(command, to);
  if (overwrite == Overwrite::yes) protocol::add(command, wire::kOverwriteWord);
  auto renamed = co_await ask_entry(std::move(command));
  if (entry) entry->end(outcome_of(renamed));
  co_return renamed;
}

async::Task<Result<>> SandboxFiles::remove(std::string path, Recursive recursive) const {
  const auto entry = begin_act("remove", path, {{"recursive", recursive == Recursive::yes}});
  auto command = protocol::command(FileVerb::remove, std::move(path));
  if (recursive == Recursive::yes) protocol::add(command, wire::kRecursiveWord);
  const auto answer = co_await ask(std::move(command));
  if (entry) entry->end(outcome_of(answer));
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  co_return Result<>();
}

async::Task<Result<FileWatch>> SandboxFiles::watch(std::string path, Recursive recursive) const {
  auto command = protocol::command(FileVerb::watch, std::move(path));
  if (recursive == Recursive::yes) protocol::add(command, wire::kRecursiveWord);
  auto helper = co_await start(std::move(command));  // its input stays open: it ends with it
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  const auto ready = co_await (*helper)->read_line();
  if (!ready) co_return tl::unexpected<Error>(ready.error());
  co_return FileWatch(std::move(*helper));
}

async::Task<Result<ArchiveWriter>> SandboxFiles::upload(std::string directory, UploadLimits limits) const {
  auto entry = begin_act("upload", directory,
                         {{"maxBytes", limits.bytes},
                          {"maxMembers", limits.members},
                          {"maxDepth", limits.depth},
                          {"maxRatio", limits.ratio},
                          {"absoluteNames", limits.absolute_names}});
  auto command = protocol::command(FileVerb::upload, std::move(directory));
  protocol::add(command, wire::kMaxBytesOption, limits.bytes);
  protocol::add(command, wire::kMaxMembersOption, limits.members);
  protocol::add(command, wire::kMaxDepthOption, limits.depth);
  protocol::add(command, wire::kMaxRatioOption, limits.ratio);
  if (!limits.absolute_names) protocol::add(command, wire::kAbsoluteNamesOption, 0);
  auto helper = co_await start(std::move(command));
  if (!helper && entry) entry->end(outcome_of(helper.error()));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  co_return ArchiveWriter(std::move(*helper), std::move(entry));
}

async::Task<Result<FileOutput>> SandboxFiles::download(std::string path, ArchiveContent content) const {
  auto command = protocol::command(FileVerb::download, std::move(path));
  if (content == ArchiveContent::files) protocol::add(command, wire::kOnlyFilesOption, 1);
  auto helper = co_await start(std::move(command));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  (*helper)->end_input();
  co_return FileOutput(std::move(*helper));
}

async::Task<Result<StageWriter>> SandboxFiles::stage() const {
  auto helper = co_await start(protocol::command(FileVerb::stage, workspace_path("")));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  co_return StageWriter(std::move(*helper));
}

async::Task<Result<FileMarks>> SandboxFiles::put(std::vector<NewFile> files) const {
  auto command = protocol::command(FileVerb::stage, workspace_path(""));
  protocol::add(command, wire::kNowWord);
  const auto helper = co_await start(std::move(command));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  // Small files, often: in one write.
  std::string stream;
  for (const auto& file : files) {
    stream += protocol::path_head(std::to_string(file.content.size()), file.path);
    stream += file.content;
  }
  stream += protocol::kEndOfStream;
  if (co_await (*helper)->write(std::move(stream))) (*helper)->end_input();
  const auto answer = co_await (*helper)->finish();
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  auto marks = protocol::decode_marks(*answer);
  if (!marks) co_return tl::unexpected<Error>(marks.error());
  if (marks->size() != files.size()) co_return protocol::broken();
  FileMarks written;
  for (std::size_t i = 0; i < files.size(); ++i) written[files[i].path] = std::move((*marks)[i]);
  co_return written;
}

async::Task<Result<ChangedFiles>> SandboxFiles::changes(ChangesWanted wanted) const {
  auto command = protocol::command(FileVerb::changed, workspace_path(""));
  command.push_back(std::to_string(wanted.since_ns));
  command.push_back(std::to_string(kMaxChanges));
  if (!wanted.remove.empty()) command.insert(command.end(), {std::string(wire::kRemoveOption), wanted.remove});
  for (const auto& [path, mark] : wanted.known)
    command.insert(command.end(), {std::string(wire::kKnownOption), mark, path});
  const auto answer = co_await ask(std::move(command));
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  co_return protocol::decode_changes(*answer, kMaxChanges);
}

async::Task<Result<SnapshotReader>> SandboxFiles::snapshot(std::vector<KnownFile> known, SnapshotLimits limits) const {
  auto command = protocol::command(FileVerb::snapshot, workspace_path(""));
  protocol::add(command, wire::kMaxBytesOption, limits.bytes);
  protocol::add(command, wire::kMaxFilesOption, limits.files);
  // A program may have left its process limit full; what it left behind is dying.
  const auto deadline = Clock::now() + kSlotTimeout;
  auto helper = co_await start(command);
  while (!helper && helper.error().code == Errc::conflict && Clock::now() <= deadline && !abandoned_()) {
    co_await async::sleep_for(kSlotInterval);
    helper = co_await start(command);
  }
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  std::string stream;
  for (const auto& file : known) stream += protocol::path_head(file.sha256, file.path);
  stream += protocol::kEndOfStream;
  // One that takes no more has failed: the reader sees it.
  if (co_await (*helper)->write(std::move(stream))) (*helper)->end_input();
  co_return SnapshotReader(std::move(*helper), limits);
}

}  // namespace cove::sandbox
