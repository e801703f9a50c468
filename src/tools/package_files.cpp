#include "tools/package_files.hpp"

#include <fmt/format.h>

#include <cstring>

#include "sandbox/files.hpp"

namespace cove::tools {
namespace {

constexpr std::size_t kBlock = 512;

void put(std::string& block, std::size_t at, std::string_view text) {
  std::memcpy(block.data() + at, text.data(), text.size());
}

// A member of a ustar archive. The path is ours: shorter than 100 bytes.
void add_member(std::string& archive, std::string_view path, std::string_view content) {
  std::string head(kBlock, '\0');
  put(head, 0, path);
  put(head, 100, "0000644");
  put(head, 108, "0000000");
  put(head, 116, "0000000");
  put(head, 124, fmt::format("{:011o}", content.size()));
  put(head, 136, "00000000000");
  put(head, 148, "        ");
  head[156] = '0';
  put(head, 257, "ustar");
  put(head, 263, "00");
  unsigned sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  put(head, 148, fmt::format("{:06o}", sum));
  head[154] = '\0';
  archive += head;
  archive += content;
  archive.resize((archive.size() + kBlock - 1) / kBlock * kBlock, '\0');
}

}  // namespace

async::Task<Result<>> write_package(std::shared_ptr<sandbox::Sandbox> sandbox, std::string directory,
                                    codegen::Package package) {
  const sandbox::SandboxFiles files(sandbox, [] { return false; }, sandbox::Confined::to_directory);
  const auto path = sandbox->row().directory + "/" + directory;
  auto removed = co_await files.remove(path, sandbox::Recursive::yes);
  if (!removed && removed.error().code != Errc::not_found) co_return removed;
  std::string archive;
  for (const auto& file : package.files) add_member(archive, file.path, file.text);
  archive.append(2 * kBlock, '\0');
  const sandbox::UploadLimits limits{.bytes = 2 * codegen::kMaxPackage,
                                     .members = codegen::kMaxModules + 10,
                                     .depth = 4,
                                     .ratio = 1000,
                                     .absolute_names = false};
  COVE_CO_TRY(auto upload, co_await files.upload(path, limits));
  COVE_CO_CHECK(co_await upload.write(std::move(archive)));
  COVE_CO_CHECK(co_await upload.finish());
  co_return Result<>();
}

}  // namespace cove::tools
