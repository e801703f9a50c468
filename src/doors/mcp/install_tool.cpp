#include <fmt/format.h>

#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/tool.hpp"
#include "json/fields.hpp"
#include "packages/index_page.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::json::text_of;
using cove::mcp::Call;
using cove::mcp::Or;
using cove::mcp::Question;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxAtOnce = 50;
constexpr std::size_t kMaxOutput = std::size_t{4} << 10;  // the end of pip's output
constexpr milliseconds kPollInterval{100};
constexpr std::chrono::seconds kHeartbeat{2};

Result<std::vector<packages::Package>> packages_argument(const json::object& arguments) {
  COVE_TRY(const auto given, strings_argument(arguments, "packages"));
  if (given.empty()) return fail(Errc::invalid, "Missing required parameter: packages");
  if (given.size() > kMaxAtOnce)
    return fail(Errc::invalid, fmt::format("Invalid argument: packages has more than {} entries", kMaxAtOnce));
  std::vector<packages::Package> packages;
  for (const auto& text : given) {
    // "numpy>=1.2,<2": a name, then its version specifiers.
    const auto end = std::min(text.find_first_of("=<>!~ "), text.size());
    const auto version = std::min(text.find_first_not_of(' ', end), text.size());
    packages::Package package{.name = text.substr(0, end), .version = text.substr(version)};
    if (const auto good = packages::requirement(package.name, package.version); !good)
      return fail(Errc::invalid, fmt::format("Invalid argument: packages: {}", good.error().message));
    packages.push_back(std::move(package));
  }
  return packages;
}

Result<packages::InstallRequest> parse(const ToolContext& context, const json::object& arguments) {
  const auto config = context.services.config();
  packages::InstallRequest request;
  COVE_TRY(request.packages, packages_argument(arguments));
  COVE_TRY(const auto seconds, number_argument(arguments, "timeout"));
  COVE_TRY(request.timeout, packages::install_time(config->dependencies, seconds, "Invalid argument: timeout"));
  COVE_TRY(const auto index, text_argument(arguments, "index_url"));
  COVE_CHECK(packages::choose_index(request, config->dependencies, index, "Invalid argument: index_url"));
  return request;
}

Question question_of(const packages::InstallRequest& request) {
  std::string names;
  for (const auto& package : request.packages)
    names += (names.empty() ? "" : ", ") + packages::requirement(package.name, package.version).value();
  auto install = property("boolean", "Install them");
  install["default"] = true;
  return cove::mcp::elicitation("install", fmt::format("Install {} from {}?", names, request.index.text()),
                                schema({{"install", std::move(install)}}, {"install"}));
}

bool is_over(const sandbox::Sandbox& sandbox) {
  return sandbox.state() == sandbox::State::deleting || sandbox.state() == sandbox::State::gone;
}

// Returns when the installation ends or the call is cancelled; a download in progress may notice that later.
Task<json::object> wait(ToolContext& context, Call& call, std::shared_ptr<sandbox::Sandbox> sandbox) {
  auto& installs = context.services.installs;
  auto last_progress = Clock::now();
  while (true) {
    auto status = installs.status(*sandbox);
    const auto state = text_of(status, "status");
    if (state != "pending" && state != "installing") co_return status;
    if (call.cancelled()) installs.cancel(*sandbox);
    if (call.cancelled() || is_over(*sandbox)) co_return json::object();
    if (Clock::now() >= last_progress + kHeartbeat) {
      last_progress = Clock::now();
      call.progress(state);
    }
    co_await call.changed().wait_until(Clock::now() + kPollInterval);
  }
}

json::array installed_packages(const json::object& status) {
  json::array out;
  const auto* list = status.if_contains("installed");
  if (list == nullptr || !list->is_array()) return out;
  for (const auto& entry : list->as_array()) {
    if (!entry.is_object()) continue;
    out.push_back(
        json::object{{"name", text_of(entry.as_object(), "name")}, {"version", text_of(entry.as_object(), "version")}});
  }
  return out;
}

json::object failed(const json::object& status) {
  auto why = text_of(status, "error");
  if (why.empty()) why = "the session ended";
  auto output = text_of(status, "output");
  if (output.size() > kMaxOutput) {
    auto from = output.size() - kMaxOutput;
    while (from < output.size() && (static_cast<unsigned char>(output[from]) & 0xC0) == 0x80) ++from;
    output.erase(0, from);
  }
  return tool_error(fmt::format("The packages were not installed: {}.{}{}", why, output.empty() ? "" : "\n", output));
}

json::object done(const Session& session, const json::object& status) {
  auto installed = installed_packages(status);
  std::string names;
  for (const auto& one : installed)
    names += fmt::format("\n{} {}", std::string_view(one.at("name").as_string()),
                         std::string_view(one.at("version").as_string()));
  return answer(fmt::format("Installed:{}\nSession: {}", names, session.id),
                {{"session_id", session.id}, {"installed", std::move(installed)}});
}

Task<Or<>> install(ToolContext& context, Call& call, json::object arguments) {
  auto request = parse(context, arguments);
  if (!request) co_return tool_error(request.error().message);
  const auto name = text_argument(arguments, "session_id");
  if (!name) co_return tool_error(name.error().message);
  const auto question = question_of(*request);
  if (context.services.config()->mcp.ask_before_install && call.can_ask(question)) {
    std::vector<Question> questions{question};
    auto asked = co_await call.ask(std::move(questions));
    if (!asked) co_return asked.error();
    if (!cove::mcp::agreed(*asked, "install"))
      co_return tool_error("Nothing was installed: the user did not agree. Continue without these packages.");
  }
  const auto session = co_await context.sessions.open(call, name->value_or(""), "python");
  if (!session) co_return tool_error(session.error().message);
  request->actor = journal::actor_of(principal_of(call));
  if (const auto begun = context.services.installs.begin(session->sandbox, std::move(*request)); !begun)
    co_return tool_error(begun.error().message);
  const auto status = co_await wait(context, call, session->sandbox);
  if (text_of(status, "status") != "completed") co_return failed(status);
  co_return done(*session, status);
}

}  // namespace

Tool install_tool(const config::Languages& /*languages*/) {
  const auto package =
      schema({{"name", property("string", "")}, {"version", property("string", "")}}, {"name", "version"});
  auto hints = annotations({.idempotent = true});
  hints["openWorldHint"] = true;
  Tool tool;
  tool.definition = {
      {"name", "install_packages"},
      {"title", "Install Python packages"},
      {"description",
       "Installs Python packages from a package index into a session; Python code in that session can import them at "
       "once, until the session ends. Wheels only, at most 50 packages a call. numpy, pandas and matplotlib are "
       "usually preinstalled. The session needs no network for it."},
      {"inputSchema", schema({{"packages", list_of({{"type", "string"}},
                                                   "Requirements as for pip: \"name\", \"name==1.2\", \"name>=1,<2\"")},
                              {"timeout", property("number", "Time limit in seconds")},
                              {"index_url", property("string", "A package index to use instead of the server's")},
                              {"session_id", session_property()}},
                             {"packages"})},
      {"outputSchema", schema({{"session_id", property("string", "")},
                               {"installed", list_of(package, "All packages installed into the session so far")}},
                              {"session_id", "installed"})},
      {"annotations", std::move(hints)}};
  tool.run = install;
  tool.tasks = TaskUse::optional;
  return tool;
}

}  // namespace cove::doors::mcp
