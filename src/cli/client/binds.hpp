#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "client/http_client.hpp"

namespace cove::cli {

// A directory of this machine and its copy in a sandbox.
struct Bind {
  std::string host;    // absolute
  std::string inside;  // absolute
};

// "HOST:PATH", PATH relative to `root` in the sandbox. Errc::invalid says what is wrong.
Result<Bind> parse_bind(std::string_view text, const std::string& root);

// Makes the directory if it is missing, and copies what is in it into the sandbox.
Result<> copy_in(client::Client& client, const std::string& id, const Bind& bind);
// Copies back the files that are new or have another content in the sandbox. None is removed, none is written through a
// link. Returns their number.
Result<std::size_t> copy_back(client::Client& client, const std::string& id, const Bind& bind);

// What `cove up` copied in, remembered on this machine for `cove down`: nobody but its user decides where files are
// copied back to.
struct BindRecord {
  std::string url;  // of the server
  std::string id;   // of the sandbox
  std::string pod;  // which sandbox of that id
  std::vector<Bind> binds;
};
Result<> remember(const BindRecord& record);
// No binds when nothing is remembered of that sandbox.
Result<BindRecord> remembered(const std::string& url, const std::string& id);
void forget(const std::string& url, const std::string& id);

}  // namespace cove::cli
