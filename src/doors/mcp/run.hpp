#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/languages.hpp"
#include "doors/mcp/recent_outputs.hpp"
#include "doors/mcp/sessions.hpp"
#include "doors/mcp/stream_ends.hpp"
#include "sandbox/files.hpp"

namespace cove::doors::mcp {

inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;   // of output, as JSON, in blocks of an answer
inline constexpr std::size_t kMaxImageBytes = std::size_t{1} << 20;  // of one image in an answer
inline constexpr std::size_t kMaxImages = std::size_t{3} << 20;      // of all of them, as base64

struct RunRequest {
  config::Language language;
  std::string code;
  std::string filename;                 // relative to the workspace, with extension; "": a generated name
  bool save = false;                    // keep the file after the run
  std::vector<sandbox::NewFile> files;  // written first
  std::optional<std::string> input;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;
  std::chrono::milliseconds timeout{30'000};
  std::shared_ptr<RecentOutputs::Output> kept = {};  // where all output goes
};

struct OutputLine {
  enum class Stream { out, err };
  Stream stream = Stream::out;
  std::string text;      // without its newline; UTF-8
  bool several = false;  // lines, with newlines between them
};

struct Image {
  std::string mime;
  std::string base64;
};

// The result of a run, as the server observed it.
struct RunRecord {
  std::vector<OutputLine> lines;  // in the order they came, as many as fit into an answer
  bool lines_cut = false;         // there were more
  std::size_t out_lines = 0;
  std::size_t err_lines = 0;
  StreamEnds out;  // any bytes
  StreamEnds err;
  std::shared_ptr<RecentOutputs::Output> kept = {};  // all of both
  bool not_utf8 = false;
  std::vector<Image> images;
  std::vector<sandbox::ChangedFile> files;  // written by it
  bool more_files = false;
  int exit_code = 0;
  std::string signal;               // "SIGKILL"
  std::uint64_t oom_kills = 0;      // processes that the kernel killed for memory
  std::uint64_t forks_refused = 0;  // forks that the kernel refused
  bool timed_out = false;
  std::chrono::milliseconds duration{0};
  std::string error_type;  // of an exception in a live interpreter
  std::string error_message;
  std::vector<std::string> notes;  // for people, when something other than the program ended it
  bool not_started = false;        // the last note says why
};

// The trace context (W3C) in the call's _meta as environment variables: TRACEPARENT, TRACESTATE, BAGGAGE. Malformed
// values are left out.
std::vector<std::string> trace_variables(const cove::mcp::Call& call);

// Whether variables are kept between calls in one session.
bool keeps_state(const config::Language& language);

// Runs Python and JavaScript without input, arguments and variables in the session's interpreter, which keeps its
// state; everything else as a program in the same directory. Reports output to the client as it is written.
Task<Result<RunRecord>> run(Services& services, cove::mcp::Call& call, Session& session, RunRequest request);

}  // namespace cove::doors::mcp
