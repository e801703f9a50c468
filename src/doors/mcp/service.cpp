#include "doors/mcp/service.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "async/deadline.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/client_form.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/execution_outputs.hpp"
#include "doors/mcp/file_resources.hpp"
#include "doors/mcp/params.hpp"
#include "doors/mcp/run.hpp"
#include "doors/mcp/suggestions.hpp"
#include "mcp/page.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Code;
using cove::mcp::fault;
using cove::mcp::Fault;
using cove::mcp::Or;
using cove::mcp::Revision;
using std::chrono::milliseconds;

constexpr milliseconds kCoalesceTime{250};  // changes closer than this are one notification
constexpr milliseconds kQuick{1000};        // a call that ends within this is answered directly, without a task

constinit AddFixtures add_fixtures = nullptr;

std::string_view name_of(TaskUse use) {
  switch (use) {
    case TaskUse::forbidden:
      return "forbidden";
    case TaskUse::optional:
      return "optional";
    case TaskUse::required:
      return "required";
  }
  return "";
}

// Whether the list of resources may have changed.
bool makes_files(const Tool& tool, const json::object& result) {
  if (tool.makes_files) return true;
  const auto* facts = result.if_contains("structuredContent");
  const auto* files = facts != nullptr && facts->is_object() ? facts->as_object().if_contains("files") : nullptr;
  if (files == nullptr || !files->is_array()) return false;
  return std::ranges::any_of(files->as_array(), [](const json::value& file) {
    const auto* change = file.is_object() ? file.as_object().if_contains("change") : nullptr;
    return change != nullptr && *change == "created";
  });
}

std::optional<Fault> wrong_arguments(const Prompt& prompt, const json::object& arguments) {
  for (const auto& [name, value] : arguments) {
    if (!value.is_string())
      return Fault{.code = Code::invalid_params,
                   .message = fmt::format("Invalid params: arguments.{} must be a string", std::string_view(name))};
  }
  for (const auto& argument : prompt.definition.at("arguments").as_array()) {
    const auto& name = argument.at("name").as_string();
    const auto* required = argument.as_object().if_contains("required");
    if (required != nullptr && required->as_bool() && !arguments.contains(name))
      return Fault{.code = Code::invalid_params,
                   .message = fmt::format("Missing required argument: {}", std::string_view(name))};
  }
  return std::nullopt;
}

}  // namespace

void set_fixtures(AddFixtures add) {
  add_fixtures = add;
}

// The tools that a model needs. The others are for programs, and for clients of the old form.
constexpr std::array<std::string_view, 10> kCoreTools{
    "execute_code", "run_command", "process_output",   "stop_process",  "write_file",
    "read_file",    "list_files",  "install_packages", "allow_network", "reset_session"};

// Without the shape of answers, which a model sees when it has one, and without choosing among default sessions, of
// which such clients have one.
json::object brief(json::object definition, const json::array& languages) {
  definition.erase("outputSchema");
  auto& properties = definition["inputSchema"].as_object()["properties"].as_object();
  if (definition.at("name") == "execute_code") {
    properties["language"].as_object()["enum"] = languages;
    // The reference servers say that it is: but x += 1 is not.
    definition["annotations"].as_object()["idempotentHint"] = false;
  } else {
    properties.erase("language");
  }
  return definition;
}

std::vector<Tool> all_tools(const config::Languages& languages, const config::Config& config) {
  std::vector<Tool> tools;
  tools.push_back(execute_tool(languages, config));
  tools.push_back(validate_tool(languages));
  tools.push_back(reset_tool(languages));
  tools.push_back(write_file_tool(languages));
  tools.push_back(read_file_tool(languages));
  tools.push_back(list_files_tool(languages));
  tools.push_back(delete_file_tool(languages));
  tools.push_back(run_command_tool(languages));
  tools.push_back(process_output_tool(languages));
  tools.push_back(stop_process_tool(languages));
  tools.push_back(install_tool(languages));
  tools.push_back(network_tool(languages));
  tools.push_back(register_tool());
  tools.push_back(create_session_tool());
  tools.push_back(list_sessions_tool());
  tools.push_back(close_session_tool());
  tools.push_back(interrupt_tool(languages));
  tools.push_back(list_languages_tool());
  for (auto& tool : tools)
    tool.listing = std::ranges::count(kCoreTools, tool.name()) > 0 ? Listing::brief : Listing::hidden;
  return tools;
}

milliseconds allowed_time(const ToolContext& context, const json::object& arguments) {
  const auto config = context.services.config();
  const auto seconds = number_argument(arguments, "timeout");
  if (!seconds || !*seconds || **seconds <= 0) return config->mcp.timeout;
  const std::chrono::duration<double> asked(std::min(**seconds, 86400.0));
  return std::min(std::chrono::ceil<milliseconds>(asked), config->exec.max_timeout);
}

json::array installed_languages(const ToolContext& context) {
  const auto* host = context.services.registry.templates().find(templates::kHostTemplate);
  if (host == nullptr) return {};
  boost::system::error_code wrong;
  auto names = json::parse(host->languages_json, wrong);
  return !wrong && names.is_array() ? std::move(names.as_array()) : json::array();
}

std::shared_ptr<RecentOutputs::Output> begin_output(ToolContext& context, const Call& call) {
  const auto config = context.services.config();
  const auto& limits = config->mcp;
  return context.outputs.begin(
      call.tenant, {.stream_bytes = limits.output_bytes,
                    .bounds = {.tenant = {.count = limits.tenant_outputs, .bytes = limits.tenant_outputs_bytes},
                               .all = {.count = limits.max_outputs, .bytes = limits.max_outputs_bytes}}});
}

CodeService::CodeService(boost::asio::any_io_executor executor, Services& services)
    : context_{.services = services,
               .sessions = Sessions(services),
               .languages = config::Languages::built_in().value(),  // tested: what is built in can be read
               .outputs = RecentOutputs(services.spool)},
      tasks_(std::move(executor), services.tasks, notifier_, {}),
      offer_{.tools = all_tools(context_.languages, *services.config()),
             .prompts = all_prompts(context_),
             .resources = {}} {
  offer_.resources.push_back(std::make_unique<FileResources>(context_, notifier_));
  offer_.resources.push_back(std::make_unique<ExecutionOutputs>(context_));
  if (services.config()->mcp.fixtures && add_fixtures != nullptr)
    add_fixtures({.offer = offer_, .notifier = notifier_, .tasks = tasks_, .background = services.tasks});
}

json::object CodeService::info() const {
  return {{"name", context_.services.config()->mcp.server_name}, {"title", "Cove"}, {"version", COVE_VERSION}};
}

std::string CodeService::instructions() const {
  std::string live;
  std::string rest;
  const auto installed = installed_languages(context_);
  for (const auto& language : context_.languages.all()) {
    if (std::ranges::count(installed, json::value(language.name)) == 0) continue;
    auto& names = keeps_state(language) ? live : rest;
    names += (names.empty() ? "" : ", ") + language.name;
  }
  const auto config = context_.services.config();
  return fmt::format(
      "Runs code in sandboxes without network access, unless allow_network opens it. {} keep their state between calls "
      "in one session; {} run as "
      "programs. Pass a session_id to return to a session; a session ends after {} minutes without use. Files are in "
      "the session's /workspace and can be read as workspace://SESSION/PATH. A run may take {} seconds unless its "
      "timeout argument says otherwise.",
      live, rest, std::chrono::duration_cast<std::chrono::minutes>(config->mcp.session_idle).count(),
      std::chrono::duration_cast<std::chrono::seconds>(config->mcp.timeout).count());
}

json::object CodeService::capabilities(Revision revision) const {
  json::object all{{"tools", {{"listChanged", true}}},
                   {"prompts", {{"listChanged", true}}},
                   {"resources", {{"subscribe", true}, {"listChanged", true}}},
                   {"logging", json::object()}};
  if (has_annotations(revision)) all["completions"] = json::object();
  if (revision == Revision::v2025_11_25)
    all["tasks"] = {
        {"list", json::object()}, {"cancel", json::object()}, {"requests", {{"tools", {{"call", json::object()}}}}}};
  if (modern(revision)) all["extensions"] = {{"io.modelcontextprotocol/tasks", json::object()}};
  return all;
}

const std::map<std::string_view, CodeService::Method>& CodeService::methods() {
  static const std::map<std::string_view, Method> kMethods{{"tools/list", &CodeService::list_tools},
                                                           {"tools/call", &CodeService::call_tool},
                                                           {"prompts/list", &CodeService::list_prompts},
                                                           {"prompts/get", &CodeService::get_prompt},
                                                           {"resources/list", &CodeService::list_resources},
                                                           {"resources/templates/list", &CodeService::list_templates},
                                                           {"resources/read", &CodeService::read_resource},
                                                           {"resources/subscribe", &CodeService::subscribe},
                                                           {"resources/unsubscribe", &CodeService::unsubscribe},
                                                           {"completion/complete", &CodeService::complete}};
  return kMethods;
}

Task<Or<>> CodeService::serve(Call& call) {
  if (call.method.starts_with("tasks/")) co_return co_await tasks_.serve(call);
  const auto found = methods().find(call.method);
  if (found == methods().end())
    co_return fault(Code::method_not_found, fmt::format("Method not found: {}", call.method));
  co_return co_await (this->*found->second)(call);
}

std::size_t CodeService::page_size() const {
  return context_.services.config()->mcp.page_size;
}

// --- tools

Task<Or<>> CodeService::list_tools(Call& call) {
  const bool whole = reads_old_form(call) || context_.services.config()->mcp.all_tools;
  const auto languages = installed_languages(context_);
  json::array all;
  for (const auto& tool : offer_.tools) {
    if (!whole && tool.listing == Listing::hidden) continue;
    auto definition = whole || tool.listing == Listing::whole ? tool.definition : brief(tool.definition, languages);
    if (tool.tasks != TaskUse::forbidden) definition["execution"] = {{"taskSupport", name_of(tool.tasks)}};
    all.push_back(std::move(definition));
  }
  co_return cove::mcp::page_of(call.params, "tools", all, page_size());
}

json::object CodeService::input_schema(std::string_view tool) const {
  const auto found = std::ranges::find(offer_.tools, tool, &Tool::name);
  return found != offer_.tools.end() ? found->definition.at("inputSchema").as_object() : json::object();
}

Task<Or<>> CodeService::call_tool(Call& call) {
  const auto name = needed(call.params, "name");
  if (!name) co_return tl::unexpected<Fault>(name.error());
  const auto found = std::ranges::find(offer_.tools, *name, &Tool::name);
  if (found == offer_.tools.end()) co_return fault(Code::invalid_params, fmt::format("Unknown tool: {}", *name));
  auto arguments = object_in(call.params, "arguments");
  if (!arguments) co_return arguments;
  const auto tool = *found;  // the list may change meanwhile
  const auto goes_on = becomes_task(call, tool, *arguments);
  if (!goes_on) co_return tl::unexpected<Fault>(goes_on.error());
  if (*goes_on) co_return co_await as_task(call, tool, std::move(*arguments));
  co_return co_await run(call, tool, std::move(*arguments));
}

Task<Or<>> CodeService::run(Call& call, Tool tool, json::object arguments) {
  auto result = co_await tool.run(context_, call, std::move(arguments));
  if (result && makes_files(tool, *result) && changed_.insert(call.tenant).second)
    context_.services.tasks.spawn("notify of changed resources", notify_resources_changed(this, call.tenant));
  co_return result;
}

Task<Or<>> CodeService::run_in_task(CodeService* self, std::shared_ptr<Call> call, Tool tool, json::object arguments) {
  co_return co_await self->run(*call, std::move(tool), std::move(arguments));
}

Task<> CodeService::notify_resources_changed(CodeService* self, std::string tenant) {
  co_await async::sleep_for(kCoalesceTime);
  self->changed_.erase(tenant);
  self->notifier_.resources_changed(tenant);
}

// In 2025-11-25 the client decides; in later revisions the server does, when a call may take long and the client
// supports tasks.
Or<bool> CodeService::becomes_task(const Call& call, const Tool& tool, const json::object& arguments) const {
  if (call.revision == Revision::v2025_11_25) {
    const auto* asked = call.params.if_contains("task");
    const bool wanted = asked != nullptr && !asked->is_null();
    if (wanted && !asked->is_object()) return fault(Code::invalid_params, "Invalid params: task must be an object");
    if (wanted && tool.tasks == TaskUse::forbidden)
      return fault(Code::method_not_found, fmt::format("{} cannot be called as a task", tool.name()));
    if (!wanted && tool.tasks == TaskUse::required)
      return fault(Code::method_not_found, fmt::format("{} can only be called as a task", tool.name()));
    return wanted;
  }
  if (!modern(call.revision) || tool.tasks == TaskUse::forbidden) return false;
  if (!knows_tasks(call)) {
    if (tool.tasks == TaskUse::required) return tl::unexpected<Fault>(cove::mcp::needs_tasks());
    return false;
  }
  // At the limit of tasks, the call is answered as an ordinary one.
  if (tool.tasks == TaskUse::optional && !tasks_.has_capacity_for(call)) return false;
  return !tool.allowed || tool.allowed(context_, arguments) > context_.services.config()->mcp.task_after;
}

Task<Or<>> CodeService::as_task(Call& call, const Tool& tool, json::object arguments) {
  const auto work = [this, tool, arguments](std::shared_ptr<Call> task) {
    return run_in_task(this, std::move(task), tool, arguments);
  };
  const bool may_be_quick = modern(call.revision) && tool.allowed;
  co_return co_await tasks_.begin(call, work, may_be_quick ? kQuick : milliseconds(0));
}

// --- prompts

Task<Or<>> CodeService::list_prompts(Call& call) {
  json::array all;
  for (const auto& prompt : offer_.prompts) all.push_back(prompt.definition);
  co_return cove::mcp::page_of(call.params, "prompts", all, page_size());
}

Task<Or<>> CodeService::get_prompt(Call& call) {
  const auto name = needed(call.params, "name");
  if (!name) co_return tl::unexpected<Fault>(name.error());
  const auto found = std::ranges::find(offer_.prompts, *name, &Prompt::name);
  if (found == offer_.prompts.end()) co_return fault(Code::invalid_params, fmt::format("Unknown prompt: {}", *name));
  auto arguments = object_in(call.params, "arguments");
  if (!arguments) co_return arguments;
  const auto prompt = *found;
  if (auto wrong = wrong_arguments(prompt, *arguments)) co_return tl::unexpected<Fault>(std::move(*wrong));
  co_return co_await prompt.get(call, std::move(*arguments));
}

// --- completion

Task<Or<>> CodeService::complete(Call& call) {
  const auto ref = object_in(call.params, "ref");
  if (!ref) co_return ref;
  const auto argument = object_in(call.params, "argument");
  if (!argument) co_return argument;
  const auto type = needed(*ref, "type");
  if (!type) co_return tl::unexpected<Fault>(type.error());
  const auto name = needed(*argument, "name");
  if (!name) co_return tl::unexpected<Fault>(name.error());
  const auto typed = needed(*argument, "value");
  if (!typed) co_return tl::unexpected<Fault>(typed.error());
  const auto context = object_in(call.params, "context");
  if (!context) co_return context;
  const auto others = object_in(*context, "arguments");
  if (!others) co_return others;
  const auto no_argument = [&] {
    return fault(Code::invalid_params, fmt::format("Invalid params: no argument {}", *name));
  };
  if (*type == "ref/prompt") {
    const auto which = needed(*ref, "name");
    if (!which) co_return tl::unexpected<Fault>(which.error());
    const auto found = std::ranges::find(offer_.prompts, *which, &Prompt::name);
    if (found == offer_.prompts.end()) co_return fault(Code::invalid_params, fmt::format("Unknown prompt: {}", *which));
    const auto& arguments = found->definition.at("arguments").as_array();
    const bool known =
        std::ranges::any_of(arguments, [&](const auto& one) { return one.at("name").as_string() == *name; });
    if (!known) co_return no_argument();
    const auto suggest = found->suggest;
    auto all = suggest ? co_await suggest(call, *name, *others) : std::vector<std::string>();
    co_return completion(std::move(all), *typed);
  }
  if (*type != "ref/resource")
    co_return fault(Code::invalid_params, "Invalid params: ref.type must be ref/prompt or ref/resource");
  const auto uri = needed(*ref, "uri");
  if (!uri) co_return tl::unexpected<Fault>(uri.error());
  auto* source = source_of(*uri);
  const auto templates = source != nullptr ? source->templates() : json::array();
  const bool known =
      std::ranges::any_of(templates, [&](const auto& one) { return one.at("uriTemplate").as_string() == *uri; });
  if (!known) co_return fault(Code::invalid_params, fmt::format("Unknown resource template: {}", *uri));
  if (uri->find("{" + *name + "}") == std::string::npos && uri->find("{+" + *name + "}") == std::string::npos)
    co_return no_argument();
  auto all = co_await source->suggest(call, *name, *others);
  co_return completion(std::move(all), *typed);
}

}  // namespace cove::doors::mcp
