#include "sandbox/program.hpp"

#include <boost/json.hpp>

namespace cove::sandbox {

namespace json = boost::json;

async::Task<Result<std::shared_ptr<Process>>> start_program(std::shared_ptr<Sandbox> sandbox, Program program,
                                                            ProcessRequest request) {
  auto first = sandbox->first_message("program", request);
  first["code"] = std::move(program.code);
  first["path"] = kProgramPath;
  first["interactive"] = program.echo == Program::Echo::last_expression;
  if (program.cpu.count() > 0) first["cpu_seconds"] = program.cpu.count();
  const auto timeout = std::exchange(request.timeout, std::nullopt);
  auto process = co_await sandbox->start_python(std::move(request));
  if (!process || (*process)->end()) co_return process;
  if (auto sent = (*process)->send(json::serialize(first)); !sent) co_return tl::unexpected<Error>(sent.error());
  if (timeout) (*process)->limit_time(*timeout);
  co_return process;
}

}  // namespace cove::sandbox
