#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "doors/sandboxes/answers.hpp"
#include "sandbox/files.hpp"

namespace cove::doors::sandboxes {

// File work in the sandbox that a request names. Counts as activity; a shutdown waits for it.
struct FileWork {
  sandbox::SandboxFiles files;
  sandbox::Sandbox::Activity activity;
  async::Gate::Pass pass;
};
// Abandoned when the client disconnects.
Task<Result<FileWork>> begin_file_work(Services& services, const http::Exchange& exchange);

// An absolute path, so that none can be mistaken for an option of the file helper. Errc::invalid names the field.
Result<std::string> checked_path(std::string_view field, std::string path);
Result<std::string> path_query(const http::Request& request, std::string_view name, std::string_view usual);

// 200 with the entry.
http::Response entry_answer(const sandbox::FileEntry& entry);

// Handlers of file_content.cpp.
Task<Answer> upload_archive(Services& services, http::Exchange& exchange);
Task<Answer> download_archive(Services& services, http::Exchange& exchange);
Task<Answer> read_file(Services& services, http::Exchange& exchange);
Task<Answer> write_file(Services& services, http::Exchange& exchange);

}  // namespace cove::doors::sandboxes
