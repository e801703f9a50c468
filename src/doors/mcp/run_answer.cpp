#include "doors/mcp/run_answer.hpp"

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/escaped.hpp"
#include "doors/mcp/excerpt.hpp"
#include "doors/mcp/recent_outputs.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using config::McpProfile;

// Sizes as JSON. With lines and images an answer stays under 8 MiB, the limit for one message.
constexpr std::size_t kMaxCode = std::size_t{512} << 10;
constexpr std::size_t kMaxStructured = std::size_t{768} << 10;  // of each stream

json::object annotated(json::object block, json::object annotations) {
  block["annotations"] = std::move(annotations);
  return block;
}

std::string_view name_of(OutputLine::Stream stream) {
  return stream == OutputLine::Stream::out ? "stdout" : "stderr";
}

std::uint64_t left_out(const RunRecord& record, OutputLine::Stream stream) {
  if (!record.kept) return 0;
  return stream == OutputLine::Stream::out ? record.kept->out.left_out() : record.kept->err.left_out();
}

// The streams, cut to what fits into an answer.
struct ShownStreams {
  ShownText out;
  ShownText err;
};
ShownStreams shown(const RunAnswer& about, const RunRecord& record) {
  const StreamText out(record.out);
  const StreamText err(record.err);
  if (about.profile == McpProfile::concise) {
    const auto shares = share(out.size(), err.size(), about.max_text);
    return {.out = excerpt(out, shares.first, execution_uri(about.execution_id, "stdout"),
                           left_out(record, OutputLine::Stream::out)),
            .err = excerpt(err, shares.second, execution_uri(about.execution_id, "stderr"),
                           left_out(record, OutputLine::Stream::err))};
  }
  const auto cut = [](ShownText all) {
    const auto fits = fitting(all.text, kMaxStructured);
    all.cut = all.cut || fits.size() < all.text.size();
    return ShownText{.text = std::string(fits), .cut = all.cut};
  };
  return {.out = cut(all_of(out)), .err = cut(all_of(err))};
}

std::string stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlank) - begin + 1));
}

// Indented by two spaces: clients search for `"exit_code": 0`.
std::string pretty(const json::object& object) {
  std::string out = "{";
  for (const auto& [name, value] : object) {
    out += fmt::format("{}\n  {}: {}", out.size() > 1 ? "," : "", json::serialize(json::value(name)),
                       json::serialize(value));
  }
  return out + "\n}";
}

// The blocks of one answer, in order.
class Blocks {
 public:
  Blocks(const RunAnswer& about, const RunRecord& record)
      : about_(about), record_(record), streams_(shown(about, record)), out_(streams_.out), err_(streams_.err) {}

  json::array take() {
    if (about_.profile == McpProfile::concise) return take_concise();
    if (about_.profile == McpProfile::batch && record_.not_started) {
      content_.push_back(annotated(text_block("Error: " + record_.notes.back()), {{"role", "error"}}));
      return std::move(content_);
    }
    add_code();
    if (about_.profile == McpProfile::batch)
      add_streams();
    else
      add_lines();
    if (about_.profile != McpProfile::batch) add_failure();
    add_images();
    add_links();
    if (about_.profile != McpProfile::streaming) add_end_text();
    if (about_.profile != McpProfile::batch) add_summary();
    return std::move(content_);
  }

  [[nodiscard]] json::object structured() const {
    json::object all{{"exit_code", exit_code()},
                     {"signal", record_.signal.empty() ? json::value(nullptr) : json::value(record_.signal)},
                     {"stdout", out_.text},
                     {"stderr", err_.text},
                     {"duration_ms", record_.duration.count()},
                     {"timed_out", record_.timed_out},
                     {"truncated", {{"stdout", out_.cut}, {"stderr", err_.cut}}},
                     {"language", about_.language.name},
                     {"session_id", about_.session_id},
                     {"execution_id", about_.execution_id},
                     {"files", files()}};
    if (!about_.filename.empty()) all["filename"] = about_.filename;
    if (record_.oom_kills > 0) all["oom_kills"] = record_.oom_kills;
    if (record_.forks_refused > 0) all["forks_refused"] = record_.forks_refused;
    if (!record_.images.empty()) all["images"] = record_.images.size();
    if (record_.not_started) all["error"] = {{"type", "RuntimeMissing"}, {"message", record_.notes.back()}};
    if (!record_.error_type.empty()) all["error"] = {{"type", record_.error_type}, {"message", record_.error_message}};
    if (!record_.notes.empty()) all["note"] = notes();
    if (record_.not_utf8) all["not_utf8"] = true;
    if (record_.more_files) all["more_files"] = true;
    return all;
  }

 private:
  // What a model needs: no code, one block for each stream, how it ended.
  json::array take_concise() {
    if (record_.not_started) {
      content_.push_back(annotated(text_block("Error: " + record_.notes.back()), {{"role", "error"}}));
      return std::move(content_);
    }
    add_streams();
    add_images();
    add_links();
    std::string words = fmt::format("Exit code: {}", exit_code());
    if (record_.timed_out) words += " (timeout: the timeout argument allows more)";
    if (!record_.signal.empty()) words += fmt::format(" ({})", record_.signal);
    if (about_.name_session) words += "\nSession: " + about_.session_id;
    if (about_.saved) words += "\nSaved: /workspace/" + about_.filename;
    if (!record_.notes.empty()) words += "\nNote: " + notes();
    content_.push_back(annotated(text_block(std::move(words)), {{"final", true}}));
    return std::move(content_);
  }

  [[nodiscard]] int exit_code() const { return record_.not_started ? -1 : record_.exit_code; }
  [[nodiscard]] bool truncated() const { return record_.lines_cut || out_.cut || err_.cut; }

  [[nodiscard]] std::string notes() const {
    std::string all;
    for (const auto& note : record_.notes) all += (all.empty() ? "" : "; ") + note;
    return replace_invalid_utf8(all);
  }

  void add_code() {
    const auto& mime = about_.language.mime;
    auto block = text_block(std::string(fitting(about_.code, kMaxCode)));
    if (about_.profile != McpProfile::batch) block["mimeType"] = mime;
    if (about_.profile != McpProfile::streaming) block["annotations"] = {{"mime_type", mime}};
    content_.push_back(std::move(block));
  }

  void add_lines() {
    std::size_t number = 0;
    for (const auto& line : record_.lines) {
      const auto stream = name_of(line.stream);
      auto block = annotated(text_block(line.text), {{"role", stream}, {"streamed", true}});
      if (about_.profile == McpProfile::superset) {
        block["_meta"] = {{"cove/stream", stream}, {"cove/seq", number++}};
        if (line.several) block["_meta"].as_object()["cove/lines"] = "several";
      }
      content_.push_back(std::move(block));
    }
  }

  void add_streams() {
    for (const auto* text : {&out_.text, &err_.text}) {
      const auto words = stripped(*text);
      if (words.empty()) continue;
      content_.push_back(annotated(text_block(words), {{"role", text == &out_.text ? "stdout" : "stderr"}}));
    }
  }

  void add_images() {
    for (const auto& image : record_.images)
      content_.push_back(json::object{{"type", "image"}, {"data", image.base64}, {"mimeType", image.mime}});
  }

  void add_failure() {
    if (record_.timed_out)
      content_.push_back(annotated(text_block("Execution timeout exceeded"), {{"role", "stderr"}, {"timeout", true}}));
    if (record_.not_started)
      content_.push_back(annotated(text_block("Execution error: " + record_.notes.back()),
                                   {{"role", "error"}, {"exception", "RuntimeMissing"}}));
  }

  // Links to output that did not fit, and to files.
  void add_links() {
    const bool concise = about_.profile == McpProfile::concise;
    const bool lines_cut = record_.lines_cut && !concise;
    if (truncated() && !concise) {
      content_.push_back(annotated(
          text_block(fmt::format("Output is truncated. {} can be read as {} and {}.",
                                 lost() ? "The kept part" : "All of it", execution_uri(about_.execution_id, "stdout"),
                                 execution_uri(about_.execution_id, "stderr"))),
          {{"role", "metadata"}, {"truncated", true}}));
    }
    add_output_link("stdout", OutputLine::Stream::out, out_.cut || lines_cut);
    add_output_link("stderr", OutputLine::Stream::err, err_.cut || lines_cut);
    for (const auto& file : record_.files) content_.push_back(link_block(about_.session_id, file.path, file.size));
  }

  // Whether a part of the output is not kept.
  [[nodiscard]] bool lost() const {
    return left_out(record_, OutputLine::Stream::out) + left_out(record_, OutputLine::Stream::err) > 0;
  }

  void add_output_link(std::string_view name, OutputLine::Stream stream, bool wanted) {
    if (!wanted || !record_.kept) return;
    const auto& kept = stream == OutputLine::Stream::out ? record_.kept->out : record_.kept->err;
    if (kept.size() == 0) return;
    content_.push_back(json::object{{"type", "resource_link"},
                                    {"uri", execution_uri(about_.execution_id, name)},
                                    {"name", name},
                                    {"mimeType", "text/plain"},
                                    {"size", kept.size()}});
  }

  void add_end_text() {
    auto words = fmt::format("Exit code: {}\nExecution time: {:.2f}s", exit_code(),
                             static_cast<double>(record_.duration.count()) / 1000);
    if (!about_.filename.empty()) words += "\nFile: " + about_.filename;
    if (about_.profile == McpProfile::superset) {
      words += "\nSession: " + about_.session_id;
      if (about_.saved) words += "\nSaved: /workspace/" + about_.filename;
      if (!record_.signal.empty()) words += "\nSignal: " + record_.signal;
      if (!record_.notes.empty() && !record_.not_started) words += "\nNote: " + notes();
    }
    content_.push_back(annotated(text_block(std::move(words)), {{"final", true}}));
  }

  void add_summary() {
    json::object summary{{"exit_code", exit_code()},
                         {"outputLines", record_.out_lines},
                         {"errorLines", record_.err_lines},
                         {"timestamp", iso_time(unix_millis())}};
    if (about_.profile == McpProfile::streaming) {
      if (!record_.signal.empty()) summary["exit_code"] = nullptr;
    } else {
      summary["session_id"] = about_.session_id;
      summary["execution_id"] = about_.execution_id;
      summary["signal"] = record_.signal.empty() ? json::value(nullptr) : json::value(record_.signal);
      summary["timed_out"] = record_.timed_out;
      summary["truncated"] = truncated();
    }
    auto block = text_block(pretty(summary));
    block["mimeType"] = "application/json";
    content_.push_back(annotated(std::move(block), {{"role", "result"}, {"final", true}}));
  }

  [[nodiscard]] json::array files() const {
    json::array all;
    for (const auto& file : record_.files) {
      all.push_back(json::object{{"uri", workspace_uri(about_.session_id, file.path)},
                                 {"name", file.path},
                                 {"mimeType", mime_of(file.path)},
                                 {"size", file.size},
                                 {"change", file.created ? "created" : "modified"}});
    }
    return all;
  }

  const RunAnswer& about_;
  const RunRecord& record_;
  ShownStreams streams_;
  const ShownText& out_;
  const ShownText& err_;
  json::array content_;
};

}  // namespace

json::object answer_of(const RunAnswer& about, const RunRecord& record) {
  Blocks blocks(about, record);
  auto structured = blocks.structured();
  return {{"content", blocks.take()}, {"structuredContent", std::move(structured)}, {"isError", record.not_started}};
}

}  // namespace cove::doors::mcp
