#include "sandbox/program.hpp"

#include "sandbox/helper.hpp"

namespace cove::sandbox {
namespace {

constexpr std::size_t kInline = 1U << 20;  // a program up to this size travels with the order to start it

// Stands in for /cove/python until every root has it: arguments are the echo (0 or 1), the seconds and the path.
constexpr const char* kBootstrap = R"py(
import sys
def run():
    import resource, os, types, ast
    echo, cpu, path = sys.argv[1] == '1', int(sys.argv[2]), sys.argv[3]
    if cpu:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    with open(path, encoding='utf-8', newline='') as file:
        source = file.read()
    if '\0' in source:
        raise SyntaxError('source code cannot contain null bytes')
    if not echo:
        os.execv('/usr/bin/python3', ['python3', path])
    module = types.ModuleType('__main__')
    module.__file__ = path
    module.__builtins__ = __builtins__
    sys.modules['__main__'] = module
    sys.argv[:] = [path]
    sys.path[0] = os.path.dirname(path)
    body = ast.parse(source, '<stdin>').body
    for number, node in enumerate(body):
        if number == len(body) - 1 and isinstance(node, ast.Expr):
            code = compile(ast.Interactive([node]), '<stdin>', 'single')
        else:
            code = compile(ast.Module([node], []), '<stdin>', 'exec')
        exec(code, module.__dict__)
run()
)py";

async::Task<Result<>> write_program(std::shared_ptr<Sandbox> sandbox, std::string code,
                                    std::function<bool()> abandoned) {
  std::vector<std::string> arguments{"write", kProgramPath, "0644"};
  if (!abandoned) abandoned = [] { return false; };
  auto helper = co_await Helper::start(std::move(sandbox), std::move(arguments), std::move(abandoned));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  if (const auto written = co_await (*helper)->write(std::move(code)); written) (*helper)->end_input();
  const auto done = co_await (*helper)->finish();
  if (!done) co_return tl::unexpected<Error>(done.error());
  co_return Result<>();
}

}  // namespace

async::Task<Result<std::shared_ptr<Process>>> start_program(std::shared_ptr<Sandbox> sandbox, Program program,
                                                            ProcessRequest request) {
  if (program.code.size() <= kInline) {
    request.files.push_back({.path = kProgramPath, .mode = 0644, .content = std::move(program.code)});
  } else {
    const auto written = co_await write_program(sandbox, std::move(program.code), request.abandoned);
    if (!written) co_return tl::unexpected<Error>(written.error());
  }
  const auto* echo = program.echo == Program::Echo::last_expression ? "1" : "0";
  request.argv = {"/usr/bin/python3", "-c", kBootstrap, echo, std::to_string(program.cpu.count()), kProgramPath};
  request.directory = "/workspace";
  co_return co_await sandbox->start(std::move(request));
}

}  // namespace cove::sandbox
