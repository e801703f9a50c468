#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "journal/entry.hpp"
#include "sandbox/file_facts.hpp"

namespace cove::sandbox {

// File content that comes from or goes into a sandbox piece by piece; SandboxFiles opens them. Destroying one that has
// not finished stops its work: a write that was not finished leaves nothing behind.

class FileHelper;
struct FileHelperDelete {
  void operator()(FileHelper* helper) const;
};
using FileHelperPtr = std::unique_ptr<FileHelper, FileHelperDelete>;

// What SandboxFiles::read and SandboxFiles::download give.
class FileOutput {
 public:
  explicit FileOutput(FileHelperPtr helper, FileFacts facts = {});

  // Of the file as it was opened; all zero for an archive.
  [[nodiscard]] const FileFacts& facts() const { return facts_; }
  // The next bytes. Empty at the end, also after a failure, which rest() reports.
  async::Task<std::string> next();
  // All remaining bytes, at most 16 MiB. Fails when the content broke off.
  async::Task<Result<std::string>> rest();

 private:
  FileHelperPtr helper_;
  FileFacts facts_;
};

class FileInput {
 public:
  // Errc::conflict when no more is taken: finish() says why.
  async::Task<Result<>> write(std::string bytes);

 protected:
  // `entry`, of the journal, gets what is written and its end; none for nobody's.
  explicit FileInput(FileHelperPtr helper, std::shared_ptr<journal::Entry> entry = {});
  // Ends the input, unless a write failed: half of it must not count as all. Then the helper's answer.
  async::Task<Result<std::string>> answer();
  [[nodiscard]] bool taking() const { return taking_; }
  void end_act(journal::Outcome outcome) const {
    if (entry_) entry_->end(std::move(outcome));
  }

 private:
  FileHelperPtr helper_;
  std::shared_ptr<journal::Entry> entry_;
  bool taking_ = true;
};

class FileWriter : public FileInput {
 public:
  FileWriter(FileHelperPtr helper, std::shared_ptr<journal::Entry> entry)
      : FileInput(std::move(helper), std::move(entry)) {}
  async::Task<Result<FileEntry>> finish();
};

class ArchiveWriter : public FileInput {
 public:
  ArchiveWriter(FileHelperPtr helper, std::shared_ptr<journal::Entry> entry)
      : FileInput(std::move(helper), std::move(entry)) {}
  async::Task<Result<UploadedFiles>> finish();
};

// Many files, one after the other: begin(), then write() until its size has been given.
class StageWriter : public FileInput {
 public:
  explicit StageWriter(FileHelperPtr helper) : FileInput(std::move(helper)) {}
  async::Task<Result<>> begin(const std::string& path, std::uint64_t size);
  // The mark of each file, in their order.
  async::Task<Result<std::vector<std::string>>> finish();
};

struct SnapshotLimits {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
};

// New and changed files of a workspace: next_file(), then next_bytes() until it is empty.
class SnapshotReader {
 public:
  SnapshotReader(FileHelperPtr helper, SnapshotLimits limits);

  // The path of the next file; none after the last one.
  async::Task<Result<std::optional<std::string>>> next_file();
  async::Task<Result<std::string>> next_bytes();
  // After the last file: how many were left out.
  [[nodiscard]] std::uint64_t omitted() const { return omitted_; }

 private:
  FileHelperPtr helper_;
  SnapshotLimits left_;
  std::uint64_t piece_left_ = 0;
  std::uint64_t omitted_ = 0;
};

class FileWatch {
 public:
  explicit FileWatch(FileHelperPtr helper);

  // A change that has come already.
  std::optional<FileChange> next_now();
  // Nothing more comes after what next_now() gives.
  [[nodiscard]] bool over() const;
  // Returns when something may have come, or at `deadline`.
  async::Task<> wait_until(std::chrono::steady_clock::time_point deadline);

 private:
  FileHelperPtr helper_;
};

}  // namespace cove::sandbox
