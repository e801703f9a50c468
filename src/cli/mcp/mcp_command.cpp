#include "cli/mcp/mcp_command.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>

#include "cli/console.hpp"
#include "cli/interrupt.hpp"
#include "cli/mcp/private_server.hpp"
#include "client/websocket.hpp"
#include "host/state_dir.hpp"

namespace cove::cli {
namespace {

using client::Opcode;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = 64U << 10;
constexpr std::size_t kUnsentLimit = 1U << 20;     // of input that the server has not taken yet
constexpr std::size_t kUnwrittenLimit = 1U << 20;  // of answers that our reader has not taken yet
constexpr std::size_t kPipe = 4096;                // what a pipe that can be written to takes without waiting
constexpr std::chrono::milliseconds kGoodbye{1500};
constexpr std::chrono::seconds kPatience{20};  // for a server that is just leaving to be gone, and the next to come
constexpr const char* kTarget = "/mcp/line";

struct McpArguments {
  ClientOptions server{.url = ""};
  std::string state_dir;
  std::string config_file;
  std::string client;
};

// Carries the bytes of our pipes to the server and back.
class Pump {
 public:
  Pump(client::WebSocket socket, Interrupt& signals) : socket_(std::move(socket)), signals_(signals) {}

  // Until everything that came is answered, or a signal told us to go.
  Result<> run() {
    while (!over()) {
      COVE_CHECK(socket_.flush());
      const bool listens = unwritten_.size() < kUnwrittenLimit;
      std::array<pollfd, 4> polls{
          {{.fd = socket_.fd(),
            .events = static_cast<short>((listens ? POLLIN : 0) | (socket_.wants_write() ? POLLOUT : 0)),
            .revents = 0},
           {.fd = signals_.fd(), .events = POLLIN, .revents = 0},
           {.fd = input_open_ && socket_.unsent() < kUnsentLimit ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
           {.fd = unwritten_.empty() ? -1 : STDOUT_FILENO, .events = POLLOUT, .revents = 0}}};
      // The handshake may have brought the first messages along.
      const int wait = std::exchange(first_, false) ? 0 : leaving_ ? 100 : -1;
      if (::poll(polls.data(), polls.size(), wait) < 0 && errno != EINTR) return fail_errno(errno, "poll");
      if (listens) COVE_CHECK(take_messages());
      if (polls[1].revents != 0) take_signals();
      if (polls[2].revents != 0) take_input();
      if (polls[3].revents != 0) give_output();
    }
    return {};
  }

 private:
  [[nodiscard]] bool over() const {
    if (leaving_) return socket_.closed() || Clock::now() > *leaving_ + kGoodbye;
    return socket_.closed() && unwritten_.empty();
  }

  Result<> take_messages() {
    if (socket_.closed()) return {};
    COVE_TRY(const auto messages, socket_.receive());
    for (const auto& message : messages) {
      if (!leaving_) unwritten_ += message.data;
    }
    return {};
  }

  void leave() {
    if (leaving_) return;
    leaving_ = Clock::now();
    input_open_ = false;
    unwritten_.clear();
    socket_.send(Opcode::text, "stop");
  }

  void take_signals() {
    while (signals_.take() != 0) leave();
  }

  void take_input() {
    std::array<char, kPiece> bytes;
    const auto n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n > 0) {
      socket_.send(Opcode::binary, {bytes.data(), static_cast<std::size_t>(n)});
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      input_open_ = false;
      socket_.send(Opcode::text, "end");
    }
  }

  void give_output() {
    const auto n = ::write(STDOUT_FILENO, unwritten_.data() + written_, std::min(unwritten_.size() - written_, kPipe));
    if (n < 0 && errno != EINTR && errno != EAGAIN) return leave();  // nobody reads any more
    if (n > 0) written_ += static_cast<std::size_t>(n);
    if (written_ == unwritten_.size()) {
      unwritten_.clear();
      written_ = 0;
    }
  }

  client::WebSocket socket_;
  Interrupt& signals_;
  bool first_ = true;
  bool input_open_ = true;
  std::string unwritten_;
  std::size_t written_ = 0;
  std::optional<Clock::time_point> leaving_;
};

std::string state_dir_of(const McpArguments& arguments) {
  if (!arguments.state_dir.empty()) return std::filesystem::absolute(arguments.state_dir).lexically_normal().string();
  if (const char* set = std::getenv("COVE_STATE_DIR"); set != nullptr && *set != '\0') return set;
  const auto usual = host::default_state_dir();
  return usual.empty() ? "" : usual + "-mcp";  // beside that of `cove serve`, which may run as well
}

Result<client::WebSocket> attach(const McpArguments& arguments) {
  COVE_TRY(const auto client, connect(arguments.server));
  return client::WebSocket::open(client.options(), kTarget);
}

Result<client::WebSocket> open_own(const McpArguments& arguments) {
  const PrivateServerOptions options{.state_dir = state_dir_of(arguments), .config_file = arguments.config_file};
  const auto until = Clock::now() + kPatience;
  while (true) {
    COVE_TRY(const auto address, private_server(options));
    auto opened = client::WebSocket::open(address, kTarget);
    if (opened || Clock::now() > until) return opened;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it was just leaving
  }
}

int speak(const McpArguments& arguments) {
  if (::isatty(STDIN_FILENO) == 1)
    tell(
        "waiting for MCP messages on standard input, one JSON object a line; a client starts this program by itself "
        "(cove mcp config shows how). Ctrl-D ends it");
  auto socket = arguments.server.url.empty() ? open_own(arguments) : attach(arguments);
  if (!socket) return report_error(arguments.server, socket.error());
  Interrupt signals;
  Pump pump(std::move(*socket), signals);
  const auto done = pump.run();
  return done ? 0 : report_error(arguments.server, done.error());
}

int print_config(const McpArguments& arguments) {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  Words words{"mcp"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--url", arguments.server.url);
  if (!arguments.state_dir.empty()) add("--state-dir", state_dir_of(arguments));
  add("--config", arguments.config_file);
  Result<> put;
  if (arguments.client.empty()) {
    put = put_line(mcp_configs({.program = program, .arguments = words, .key = arguments.server.key}));
  } else {
    const auto config =
        mcp_config({.client = arguments.client, .program = program, .arguments = words, .key = arguments.server.key});
    if (!config) return report_error(arguments.server, config.error(), 2);
    put = put_line(pretty(*config));
  }
  return put ? 0 : report_error(arguments.server, put.error());
}

// --state-dir and --config speak of a server of our own: they win over a COVE_URL, which speaks of another's.
void heed_flags(McpArguments& arguments, bool url_given) {
  if (!url_given && (!arguments.state_dir.empty() || !arguments.config_file.empty())) arguments.server.url.clear();
}

void describe_state_dir(App& command, McpArguments& arguments) {
  command.add_option("--state-dir", arguments.state_dir,
                     "State directory of the background server, without --url (default " + state_dir_of({}) + ")");
}

void describe_servers(App& command, McpArguments& arguments) {
  cli::describe_server(command, arguments.server,
                       {.url = "Use this server, instead of starting one in the background",
                        .key = "API key, if that server requires one"});
  describe_state_dir(command, arguments);
  command.add_option("--config", arguments.config_file,
                     "Configuration file of the background server, as for cove serve");
}

}  // namespace

void add_mcp_command(App& app, Commands& commands) {
  auto arguments = std::make_shared<McpArguments>();
  auto* mcp = app.add_subcommand("mcp", "Serve the Model Context Protocol (MCP) over standard input and output");
  mcp->footer(
      "For MCP clients that start their servers as programs. Without --url, cove mcp starts a server in the "
      "background. Every\n"
      "cove mcp with the same --state-dir shares it; it exits when it has neither clients nor named sessions.\n"
      "Examples:\n"
      "  cove mcp config                      how to set up your client\n"
      "  cove mcp config --client cursor      the JSON for one client\n"
      "  cove mcp stop                        stop the background server and end its sessions\n"
      "  echo '{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"execute_code\",\"arguments\":"
      "{\"language\":\"python\",\"code\":\"6*7\"}}}' | cove mcp");
  mcp->require_subcommand(0, 1);
  describe_servers(*mcp, *arguments);
  auto* config =
      mcp->add_subcommand("config", "Print the settings for MCP clients: Claude Desktop, Claude Code, Cursor, VS Code");
  config->add_option("--client", arguments->client,
                     "Print only the JSON for this client: claude-desktop, claude-code, cursor or vscode");
  describe_servers(*config, *arguments);
  auto* stop = mcp->add_subcommand("stop", "Stop the background server and end its sessions");
  describe_state_dir(*stop, *arguments);
  commands.push_back({.app = mcp, .run = [arguments, mcp, config, stop](const AfterDashes&) {
                        heed_flags(*arguments, mcp->count("--url") + config->count("--url") > 0);
                        if (config->called()) return print_config(*arguments);
                        if (!stop->called()) return speak(*arguments);
                        const auto stopped = stop_private_server(state_dir_of(*arguments));
                        return stopped ? 0 : report_error(arguments->server, stopped.error());
                      }});
}

}  // namespace cove::cli
