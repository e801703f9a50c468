#include "sandbox/file_streams.hpp"

#include "sandbox/file_helper.hpp"
#include "sandbox/file_protocol.hpp"
#include "sandbox/journal_outcome.hpp"

namespace cove::sandbox {

namespace protocol = file_protocol;

void FileHelperDelete::operator()(FileHelper* helper) const {
  delete helper;
}

FileOutput::FileOutput(FileHelperPtr helper, FileFacts facts) : helper_(std::move(helper)), facts_(facts) {}

async::Task<std::string> FileOutput::next() {
  return helper_->read();
}

async::Task<Result<std::string>> FileOutput::rest() {
  return helper_->finish();
}

FileInput::FileInput(FileHelperPtr helper, std::shared_ptr<journal::Entry> entry)
    : helper_(std::move(helper)), entry_(std::move(entry)) {}

async::Task<Result<>> FileInput::write(std::string bytes) {
  if (entry_) entry_->add_content(bytes);
  auto written = co_await helper_->write(std::move(bytes));
  if (!written) taking_ = false;
  co_return written;
}

async::Task<Result<std::string>> FileInput::answer() {
  if (taking_) helper_->end_input();
  co_return co_await helper_->finish();
}

async::Task<Result<FileEntry>> FileWriter::finish() {
  const auto said = co_await answer();
  auto entry = said ? protocol::decode_entry(*said) : tl::unexpected<Error>(said.error());
  auto outcome = outcome_of(entry);
  if (entry) outcome.result["bytes"] = entry->size;
  end_act(std::move(outcome));
  co_return entry;
}

async::Task<Result<UploadedFiles>> ArchiveWriter::finish() {
  const auto said = co_await answer();
  auto uploaded = said ? protocol::decode_uploaded(*said) : tl::unexpected<Error>(said.error());
  end_act(outcome_of(uploaded));
  co_return uploaded;
}

async::Task<Result<>> StageWriter::begin(const std::string& path, std::uint64_t size) {
  return write(protocol::path_head(std::to_string(size), path));
}

async::Task<Result<std::vector<std::string>>> StageWriter::finish() {
  // One that takes no more has found fault already.
  if (taking()) [[maybe_unused]]
    const auto ended = co_await write(std::string(protocol::kEndOfStream));
  const auto said = co_await answer();
  if (!said) co_return tl::unexpected<Error>(said.error());
  co_return protocol::decode_marks(*said);
}

SnapshotReader::SnapshotReader(FileHelperPtr helper, SnapshotLimits limits)
    : helper_(std::move(helper)), left_(limits) {}

async::Task<Result<std::optional<std::string>>> SnapshotReader::next_file() {
  const auto line = co_await helper_->read_line();
  if (!line) co_return tl::unexpected<Error>(line.error());
  if (line->starts_with("end ")) {
    const auto omitted = protocol::decode_number(std::string_view(*line).substr(4));
    if (!omitted) co_return tl::unexpected<Error>(omitted.error());
    omitted_ = *omitted;
    co_return std::nullopt;
  }
  auto path = protocol::decode_path(*line);
  if (!path) co_return tl::unexpected<Error>(path.error());
  if (left_.files == 0) co_return protocol::broken();
  --left_.files;
  co_return std::optional(std::move(*path));
}

async::Task<Result<std::string>> SnapshotReader::next_bytes() {
  if (piece_left_ == 0) {
    const auto line = co_await helper_->read_line();
    const auto size = line ? protocol::decode_number(*line) : tl::unexpected<Error>(line.error());
    if (!size) co_return tl::unexpected<Error>(size.error());
    if (*size == 0) co_return std::string();
    if (*size > left_.bytes) co_return fail(Errc::io, "more files than fit into the sandbox");
    left_.bytes -= *size;
    piece_left_ = *size;
  }
  auto bytes = co_await helper_->read_some(static_cast<std::size_t>(piece_left_));
  if (bytes) piece_left_ -= bytes->size();
  co_return bytes;
}

FileWatch::FileWatch(FileHelperPtr helper) : helper_(std::move(helper)) {}

std::optional<FileChange> FileWatch::next_now() {
  while (const auto line = helper_->line_now()) {
    if (auto change = protocol::decode_change(*line)) return change;
  }
  return std::nullopt;
}

bool FileWatch::over() const {
  return helper_->over();
}

async::Task<> FileWatch::wait_until(std::chrono::steady_clock::time_point deadline) {
  co_await helper_->process().changed().wait_until(deadline);
}

}  // namespace cove::sandbox
