#include "sandbox/program.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "guest/channel.hpp"

namespace cove::sandbox {

namespace json = boost::json;

namespace {

async::Task<Result<std::shared_ptr<Process>>> begin(std::shared_ptr<Sandbox> sandbox, json::object first,
                                                    ProcessRequest request) {
  const auto timeout = std::exchange(request.timeout, std::nullopt);
  auto process = co_await sandbox->start_python(std::move(request));
  if (!process || (*process)->end()) co_return process;
  if (auto sent = (*process)->send(json::serialize(first)); !sent) co_return tl::unexpected<Error>(sent.error());
  if (timeout) (*process)->limit_time(*timeout);
  co_return process;
}

}  // namespace

async::Task<Result<std::shared_ptr<Process>>> start_program(std::shared_ptr<Sandbox> sandbox, Program program,
                                                            ProcessRequest request) {
  auto first = sandbox->first_message("program", request);
  first["code"] = std::move(program.code);
  first["path"] = std::move(program.path);
  if (!program.arguments.empty()) first["argv"] = json::value_from(program.arguments);
  if (!program.outputs.empty()) first["outputs"] = json::value_from(program.outputs);
  first["interactive"] = program.echo == Program::Echo::last_expression;
  if (program.cpu.count() > 0) first["cpu_seconds"] = program.cpu.count();
  co_return co_await begin(std::move(sandbox), std::move(first), std::move(request));
}

async::Task<Result<std::shared_ptr<Process>>> start_handler(std::shared_ptr<Sandbox> sandbox, HandlerCall call,
                                                            ProcessRequest request) {
  auto first = sandbox->first_message("handler", request);
  first["code"] = std::move(call.code);
  // As texts: numbers stay as they were written.
  first["event"] = std::move(call.event_json);
  first["context"] = std::move(call.context_json);
  co_return co_await begin(std::move(sandbox), std::move(first), std::move(request));
}

std::optional<std::string> last_message(const Process& process, std::size_t most) {
  std::vector<std::string_view> records;
  for (const auto& event : process.events()) {
    if (event.kind == Event::Kind::channel) records.emplace_back(event.bytes);
  }
  return guest::last_of(records, most);
}

std::chrono::milliseconds cpu_time(const Process& process) {
  constexpr std::string_view kStarted = R"({"type":"started","cpu_ms":)";
  const auto whole = process.end()->cpu;
  const auto& events = process.events();
  const auto first = std::ranges::find(events, Event::Kind::channel, &Event::kind);
  if (first == events.end() || first->bytes.empty()) return whole;
  auto text = std::string_view(first->bytes).substr(1);  // behind the record's flags
  if (!text.starts_with(kStarted)) return whole;
  text.remove_prefix(kStarted.size());
  std::int64_t before = 0;
  std::from_chars(text.data(), text.data() + text.size(), before);
  return std::max(whole - std::chrono::milliseconds(before), std::chrono::milliseconds(0));
}

}  // namespace cove::sandbox
