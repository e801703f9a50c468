#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "config/languages.hpp"
#include "doors/mcp/sessions.hpp"

namespace cove::doors::mcp {

struct RunRequest {
  config::Language language;
  std::string code;
  std::string filename;  // relative to the workspace, with its extension; "": a name of ours
  bool save = false;     // the file stays
  std::optional<std::string> input;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;
  std::chrono::milliseconds timeout{30'000};
};

struct Line {
  enum class Stream { out, err };
  Stream stream = Stream::out;
  std::string text;  // without its newline; UTF-8
};

struct Image {
  std::string mime;
  std::string base64;
};

// What came of a run, as the kernel and the server saw it.
struct Ran {
  std::vector<Line> lines;  // in the order they came
  std::string out;
  std::string err;
  std::vector<Image> images;
  int exit_code = 0;
  std::string signal;  // "SIGKILL"
  bool timed_out = false;
  bool out_truncated = false;
  bool err_truncated = false;
  std::chrono::milliseconds duration{0};
  std::string error_type;  // of an exception in a live interpreter
  std::string error_message;
  std::string note;  // for people, when something other than the program ended it
  bool not_started = false;
};

// Whether its variables stay between calls of one session.
bool keeps_state(const config::Language& language);

// Python without input, arguments and variables of its own runs in the session's interpreter, which keeps its state;
// everything else as a program of its own, in the same directory. Tells of output while it comes.
Task<Result<Ran>> run(Services& services, cove::mcp::Call& call, Session& session, RunRequest request);

}  // namespace cove::doors::mcp
