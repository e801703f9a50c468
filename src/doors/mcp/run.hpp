#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "config/languages.hpp"
#include "doors/mcp/sessions.hpp"
#include "sandbox/files.hpp"

namespace cove::doors::mcp {

inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;   // of output, as JSON, in blocks of an answer
inline constexpr std::size_t kMaxImageBytes = std::size_t{1} << 20;  // of one image in an answer
inline constexpr std::size_t kMaxImages = std::size_t{3} << 20;      // of all of them, as base64

struct RunRequest {
  config::Language language;
  std::string code;
  std::string filename;                 // relative to the workspace, with its extension; "": a name of ours
  bool save = false;                    // the file stays
  std::vector<sandbox::NewFile> files;  // written first
  std::optional<std::string> input;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;
  std::chrono::milliseconds timeout{30'000};
};

struct Line {
  enum class Stream { out, err };
  Stream stream = Stream::out;
  std::string text;      // without its newline; UTF-8
  bool several = false;  // lines, with newlines between them
};

struct Image {
  std::string mime;
  std::string base64;
};

// What came of a run, as the kernel and the server saw it.
struct RunRecord {
  std::vector<Line> lines;  // in the order they came, as many as fit into an answer
  bool lines_cut = false;   // there were more
  std::size_t out_lines = 0;
  std::size_t err_lines = 0;
  std::string out;  // any bytes
  std::string err;
  bool out_truncated = false;  // more was written than is kept
  bool err_truncated = false;
  bool not_utf8 = false;
  std::vector<Image> images;
  std::vector<sandbox::ChangedFile> files;  // written by it
  bool more_files = false;
  int exit_code = 0;
  std::string signal;  // "SIGKILL"
  bool timed_out = false;
  std::chrono::milliseconds duration{0};
  std::string error_type;  // of an exception in a live interpreter
  std::string error_message;
  std::vector<std::string> notes;  // for people, when something other than the program ended it
  bool not_started = false;        // the last note says why
};

// What a program is told of the trace that its call belongs to, as variables: TRACEPARENT and its like (W3C), from the
// call's _meta. What is not of their form is left out.
std::vector<std::string> trace_variables(const cove::mcp::Call& call);

// Whether its variables stay between calls of one session.
bool keeps_state(const config::Language& language);

// Python and JavaScript without input, arguments and variables of their own run in the session's interpreter, which
// keeps its state; everything else as a program of its own, in the same directory. Tells of output while it comes.
Task<Result<RunRecord>> run(Services& services, cove::mcp::Call& call, Session& session, RunRequest request);

}  // namespace cove::doors::mcp
