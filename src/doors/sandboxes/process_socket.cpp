#include "doors/sandboxes/process_socket.hpp"

#include "doors/sandboxes/process_fields.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using async::Task;
using sandbox::Event;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatch = 256U << 10;
constexpr std::size_t kInputPiece = 64U << 10;
constexpr std::chrono::seconds kInputPatience{10};

Result<> obey(sandbox::Process& process, std::string_view text) {
  COVE_TRY(const auto body, parse_object(text));
  COVE_TRY(const auto type, text_field(body, "type"));
  if (type == "resize") {
    COVE_TRY(const auto rows, size_field(body, "rows", 24));
    COVE_TRY(const auto columns, size_field(body, "cols", 80));
    return process.resize(rows, columns);
  }
  if (type == "signal") {
    COVE_TRY(const auto number, signal_field(body));
    return process.signal(number);
  }
  if (type == "eof") return process.end_input();
  return fail(Errc::invalid, "type must be resize, signal or eof");
}

// Writes input in pieces, as fast as the process reads it. Fails if it reads nothing for too long.
Task<Result<>> type_in(std::shared_ptr<sandbox::Process> process, std::string bytes) {
  std::string_view rest = bytes;
  auto until = Clock::now() + kInputPatience;
  while (!rest.empty()) {
    const auto piece = rest.substr(0, kInputPiece);
    const auto offered = process->offer_input(piece);
    if (offered) {
      rest.remove_prefix(piece.size());
      until = Clock::now() + kInputPatience;
      continue;
    }
    if (offered.error().code != Errc::over_limit || Clock::now() >= until) co_return offered;
    co_await process->changed().wait_until(std::min(until, Clock::now() + milliseconds(250)));
  }
  co_return Result<>();
}

// Handles the client's messages. An error ends the connection, so that nothing waits here for ever.
Task<> take_keys(std::shared_ptr<http::WebSocket> socket, std::shared_ptr<sandbox::Process> process,
                 std::shared_ptr<bool> left) {
  while (true) {
    auto message = co_await socket->read();
    if (!message) break;
    Result<> done;
    if (message->text)
      done = obey(*process, message->data);
    else
      done = co_await type_in(process, std::move(message->data));
    if (done || process->end()) continue;  // of one that has ended the last words are on their way
    co_await socket->close(message->text && done.error().code == Errc::invalid ? 1008 : 1013, done.error().message);
    break;
  }
  *left = true;
  process->changed().notify_all();
}

}  // namespace

Task<> relay(Services& services, std::shared_ptr<http::WebSocket> socket, std::shared_ptr<sandbox::Process> process,
             std::uint64_t from) {
  const auto left = std::make_shared<bool>(false);
  services.registry.tasks().spawn("take a terminal's keys", take_keys(socket, process, left));
  sandbox::Reader reader(process, from);
  while (!*left) {
    const auto batch = reader.take(kBatch);
    if (batch.lost) {
      const auto gap =
          json::serialize(json::object{{"type", "gap"}, {"from", batch.lost->from}, {"to", batch.lost->to}});
      if (!co_await socket->send_text(gap)) break;
    }
    bool sent = true;
    for (const auto& event : batch.events) {
      if (event.kind != Event::Kind::out && event.kind != Event::Kind::err) continue;
      const auto done = co_await socket->send_binary(event.bytes);
      sent = sent && done;
    }
    if (!sent) break;
    if (batch.over) {
      auto object = end_fields(*process->end());
      object["type"] = "end";
      const auto text = json::serialize(object);
      if (co_await socket->send_text(text)) co_await socket->close(1000, "the process ended");
      break;
    }
    if (batch.events.empty()) co_await process->changed().wait_until(Clock::now() + milliseconds(500));
  }
  // The reading task uses the exchange: wait until it has ended.
  co_await socket->close(1000, "");
  while (!*left) co_await process->changed().wait_until(Clock::now() + milliseconds(100));
}

}  // namespace cove::doors::sandboxes
