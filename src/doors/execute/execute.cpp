#include <utility>

#include "base/random.hpp"
#include "doors/execute/output.hpp"
#include "doors/execute/run.hpp"
#include "sandbox/program.hpp"

namespace cove::doors::execute {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLook{200};  // how often it is seen whether the client is still there
constexpr std::size_t kBatch = 256U << 10;

// One program and everything that goes with it, from the moment it may run.
struct Run {
  Place place;
  std::string tenant;
  std::vector<Input> inputs;
  sandbox::Lease allowance;
  std::shared_ptr<sandbox::Process> process;
  Clock::time_point began;
};

std::string run_name() {
  return fmt::format("code-exec-{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
}

std::function<bool()> gone(const http::Exchange& exchange) {
  return [&exchange] { return exchange.client_gone(); };
}

// Everything up to the start of the program; what is wrong by then is an answer of its own.
Task<Or<Run>> begin(Services& services, http::Exchange& exchange, Operation operation) {
  using Refused = tl::unexpected<http::Response>;
  const auto body = co_await read_value(services, exchange);
  if (!body) co_return Refused(body.error());
  auto parsed = parse_execute(*body);
  if (const auto* problems = std::get_if<Problems>(&parsed)) co_return Refused(wrong(*problems));
  auto& request = std::get<ExecuteRequest>(parsed);
  const auto config = services.config();
  const auto timeout = checked_timeout(request.timeout, *config);
  if (!timeout) co_return Refused(timeout.error());
  auto place = co_await take_place(services, exchange, operation);
  if (!place) co_return Refused(place.error());
  const auto principal = exchange.request().principal;
  auto inputs = co_await find_inputs(services, principal.tenant, std::move(request.files), Entrypoint::reserved);
  if (!inputs) co_return Refused(inputs.error());

  WorkplaceOptions options{.name = run_name()};
  auto allowance = co_await make_allowance(services, principal, operation, std::move(options));
  if (!allowance) co_return Refused(allowance.error());
  const auto staged = co_await stage(services, allowance->sandbox(), *inputs, gone(exchange));
  if (!staged) co_return Refused(answer_to(staged.error(), *config));

  const auto limit = config->execute.output_limit_bytes;
  const bool streaming = operation == Operation::execute_stream;
  sandbox::ProcessRequest process{.variables = environment(),
                                  .timeout = *timeout,
                                  .input = request.input ? sandbox::InputMode::open : sandbox::InputMode::none,
                                  .output_limit = limit,
                                  .history = 2 * limit + (1U << 20),
                                  .delivery = streaming ? sandbox::Delivery::everything : sandbox::Delivery::newest,
                                  .abandoned = gone(exchange),
                                  .whole = !streaming};
  sandbox::Program program{
      .code = std::move(request.code),
      .echo = request.echo ? sandbox::Program::Echo::last_expression : sandbox::Program::Echo::none,
      .cpu = std::chrono::ceil<std::chrono::seconds>(config->execute.cpu_time)};
  auto started = co_await start_program(allowance->sandbox(), std::move(program), std::move(process));
  if (!started) co_return Refused(answer_to(started.error(), *config));
  const auto& end = (*started)->end();
  if (end && (end->reason == sandbox::Reason::not_started || end->reason == sandbox::Reason::pids))
    co_return refuse(500, fmt::format("The executor could not start: {}", end->note));
  const auto began = Clock::now();
  if (request.input)
    services.registry.tasks().spawn("feed a program", sandbox::feed(*started, std::move(*request.input)));
  co_return Run{.place = std::move(*place),
                .tenant = principal.tenant,
                .inputs = std::move(*inputs),
                .allowance = std::move(*allowance),
                .process = std::move(*started),
                .began = began};
}

struct Finished {
  std::vector<OutputFile> files;
  std::string fields;  // "exit_code":…,"timed_out":…,"duration_ms":…,"files":[…]
};

// What is told of a run that has ended, its files kept.
Task<Result<Finished>> finish(Services& services, Run& run, std::function<bool()> abandoned) {
  const auto& end = *run.process->end();
  const bool timed_out = end.reason == sandbox::Reason::timeout;
  Finished finished;
  // Of a sandbox that has gone nothing can be read.
  if (end.reason != sandbox::Reason::sandbox_gone) {
    auto files = co_await collect(services, run.allowance.sandbox(), end, run.tenant, run.inputs, std::move(abandoned));
    if (!files) co_return tl::unexpected<Error>(files.error());
    finished.files = std::move(*files);
  }
  const int status = end.reason == sandbox::Reason::sandbox_gone || end.reason == sandbox::Reason::cancelled
                         ? 128 + 9
                         : end.exit_status;
  const auto duration = std::chrono::duration_cast<milliseconds>(Clock::now() - run.began);
  finished.fields =
      fmt::format(R"("exit_code":{},"timed_out":{},"duration_ms":{},"files":{})",
                  timed_out ? "null" : std::to_string(status), timed_out, duration.count(), to_json(finished.files));
  run.place.running.set(timed_out ? Outcome::timed_out : Outcome::ok);
  co_return finished;
}

// Nobody will ever ask for files that nobody was told of.
void forget(Services& services, const Run& run, const std::vector<OutputFile>& files) {
  for (const auto& file : files) static_cast<void>(services.files.remove(run.tenant, file.id).has_value());
}

Task<> execute(Services& services, http::Exchange& exchange) {
  auto run = co_await begin(services, exchange, Operation::execute);
  if (!run) co_return co_await send(exchange, std::move(run.error()));
  auto& process = *run->process;
  while (!process.end()) {
    co_await process.changed().wait_until(Clock::now() + kLook);
    if (exchange.client_gone()) co_return;
  }
  const auto limit = process.request().output_limit;
  const auto& end = *process.end();
  auto body = fmt::format(R"({{"stdout":{},"stderr":{},)",
                          json_text(shown_output(process.text_of(sandbox::Event::Kind::out), end.out_bytes, limit)),
                          json_text(shown_output(process.text_of(sandbox::Event::Kind::err), end.err_bytes, limit)));
  const auto finished = co_await finish(services, *run, gone(exchange));
  if (!finished) co_return co_await send(exchange, answer_to(finished.error(), *services.config()));
  if (exchange.client_gone()) co_return forget(services, *run, finished->files);
  body += finished->fields + "}";
  co_await send(exchange, json(200, std::move(body)));
}

http::Response event_stream() {
  return {.status = 200,
          .content_type = "text/event-stream; charset=utf-8",
          .headers = {{"Cache-Control", "no-cache"}, {"Connection", "keep-alive"}, {"X-Accel-Buffering", "no"}}};
}

std::string output_event(std::string_view stream, std::string_view text) {
  if (text.empty()) return "";
  return http::sse_event(std::nullopt, "output",
                         fmt::format(R"({{"stream":"{}","data":{}}})", stream, json_text(text)));
}

Task<> execute_stream(Services& services, http::Exchange& exchange) {
  auto run = co_await begin(services, exchange, Operation::execute_stream);
  if (!run) co_return co_await send(exchange, std::move(run.error()));
  if (!co_await exchange.start(event_stream())) co_return;
  sandbox::Reader reader(run->process, 1);
  TextStream out;
  TextStream err;
  while (true) {
    const auto batch = reader.take(kBatch);
    std::string text;
    for (const auto& event : batch.events) {
      if (event.kind == sandbox::Event::Kind::out) text += output_event("stdout", out.take(event.bytes));
      if (event.kind == sandbox::Event::Kind::err) text += output_event("stderr", err.take(event.bytes));
    }
    if (batch.over) text += output_event("stdout", out.rest()) + output_event("stderr", err.rest());
    if (!text.empty() && !co_await exchange.write(text)) co_return;
    if (batch.over) break;
    if (!batch.events.empty()) continue;
    co_await run->process->changed().wait_until(Clock::now() + kLook);
    if (exchange.client_gone() || !services.still_valid(exchange.request().principal)) co_return;
  }
  const auto finished = co_await finish(services, *run, gone(exchange));
  if (finished && exchange.client_gone()) co_return forget(services, *run, finished->files);
  const auto last = finished ? http::sse_event(std::nullopt, "result", "{" + finished->fields + "}")
                             : http::sse_event(std::nullopt, "error",
                                               fmt::format(R"({{"message":{}}})", json_text(finished.error().message)));
  if (co_await exchange.write(last)) [[maybe_unused]]
    const auto done = co_await exchange.finish();
}

}  // namespace

void add_execute_routes(http::Router& router, Services* services) {
  auto* s = services;
  router.add(http::verb::post, "/v1/execute", [s](auto& exchange) { return execute(*s, exchange); }, strict_route());
  router.add(
      http::verb::post, "/v1/execute/stream", [s](auto& exchange) { return execute_stream(*s, exchange); },
      strict_route());
}

}  // namespace cove::doors::execute
