#include "sandbox/program.hpp"

#include <boost/json.hpp>

#include "sandbox/channel.hpp"

namespace cove::sandbox {
namespace {

namespace json = boost::json;

json::object environment_of(const Sandbox& sandbox, const ProcessRequest& request) {
  json::object variables;
  for (const auto& variable : sandbox.environment(request)) {
    const auto equals = variable.find('=');
    variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return variables;
}

}  // namespace

async::Task<Result<std::shared_ptr<Process>>> start_program(std::shared_ptr<Sandbox> sandbox, Program program,
                                                            ProcessRequest request) {
  const json::object begin{
      {"op", "begin"},
      {"mode", "program"},
      {"env", environment_of(*sandbox, request)},
      {"cwd", "/workspace"},
      {"code", program.code},
      {"path", kProgramPath},
      {"interactive", program.echo == Program::Echo::last_expression},
      {"cpu_seconds", program.cpu.count() == 0 ? json::value() : json::value(program.cpu.count())}};
  const auto timeout = std::exchange(request.timeout, std::nullopt);
  auto process = co_await sandbox->start_python(std::move(request));
  if (!process || (*process)->end()) co_return process;
  if (auto sent = (*process)->send(json::serialize(begin)); !sent) co_return tl::unexpected<Error>(sent.error());
  if (timeout) (*process)->limit_time(*timeout);
  co_return process;
}

}  // namespace cove::sandbox
