#pragma once

#include <map>
#include <string>

#include "cli/client/client_options.hpp"

namespace cove::cli::noxrc {

struct ExecRequest {
  Words command;
  std::string workdir = "/workspace";
  boost::json::object environment{};
  int timeout_seconds = 30;
};

struct ExecResult {
  int exit_code = 0;
  std::string out;
  std::string err;
};

struct CreateRequest {
  int ttl_seconds = 900;
  std::string image, cpu, memory, storage;
};

// The operations of noxrc, on a server or on this machine. Errors have a message for users; client::interrupted is
// Ctrl-C.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<bool> healthy() = 0;
  virtual Result<std::string> create(const std::string& session, const CreateRequest& request) = 0;  // podName
  virtual Result<bool> wait_ready(const std::string& session, int timeout_seconds) = 0;
  virtual Result<ExecResult> exec(const std::string& session, const ExecRequest& request) = 0;
  // Maps names in the sandbox to local files.
  virtual Result<> upload(const std::string& session, const std::map<std::string, std::string>& files,
                          const std::string& dest) = 0;
  virtual Result<> download(const std::string& session, const std::string& src, int fd) = 0;  // tar.gz
  virtual Result<> touch(const std::string& session) = 0;
  virtual Result<> remove(const std::string& session) = 0;
};

}  // namespace cove::cli::noxrc
