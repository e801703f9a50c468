#include "wire/init_messages.hpp"

#include "wire/codec.hpp"

namespace cove::wire {
namespace {

bool known(Stream stream) {
  return stream >= Stream::out && stream <= Stream::channel;
}

void write(Writer& writer, const OutputLimit& limit) {
  writer.number(limit.bytes);
  writer.number(limit.kept);
}

OutputLimit read_output_limit(Reader& reader) {
  OutputLimit limit;
  limit.bytes = reader.number<std::uint64_t>();
  limit.kept = reader.number<Kept>();
  return limit;
}

bool sane(const OutputLimit& limit) {
  return limit.kept <= Kept::both_ends;
}

}  // namespace

std::string encode(const OutputLimit& message) {
  std::string out;
  Writer writer(out);
  write(writer, message);
  return out;
}

std::optional<OutputLimit> decode_output_limit(std::string_view payload) {
  Reader reader(payload);
  const auto message = read_output_limit(reader);
  if (!reader.complete() || !sane(message)) return std::nullopt;
  return message;
}

std::string encode(const Handover& message) {
  std::string out;
  Writer writer(out);
  writer.number(message.pid);
  write(writer, message.output_limit);
  return out;
}

std::optional<Handover> decode_handover(std::string_view payload) {
  Reader reader(payload);
  Handover message;
  message.pid = reader.number<std::int32_t>();
  message.output_limit = read_output_limit(reader);
  if (!reader.complete() || message.pid <= 1 || !sane(message.output_limit)) return std::nullopt;
  return message;
}

std::string encode(const Known& message) {
  std::string out;
  Writer writer(out);
  writer.number(message.state);
  writer.number(message.first_sequence);
  writer.number(message.next_sequence);
  writer.number(message.input_received);
  writer.number(message.channel_received);
  return out;
}

std::optional<Known> decode_known(std::string_view payload) {
  Reader reader(payload);
  Known message;
  message.state = reader.number<ProcessState>();
  message.first_sequence = reader.number<std::uint64_t>();
  message.next_sequence = reader.number<std::uint64_t>();
  message.input_received = reader.number<std::uint64_t>();
  message.channel_received = reader.number<std::uint64_t>();
  if (!reader.complete() || message.state > ProcessState::ended) return std::nullopt;
  return message;
}

std::string encode(const Spawn& message) {
  std::string out;
  Writer writer(out);
  writer.number(message.kind);
  writer.number(message.terminal);
  writer.number(message.after_exit);
  writer.number(message.supervision);
  writer.number(message.channel);
  writer.number(message.rows);
  writer.number(message.columns);
  writer.number(std::uint32_t{0});  // reserved
  write(writer, message.output_limit);
  writer.number(message.flood_limit);
  writer.text(message.directory);
  writer.texts(message.argv);
  writer.texts(message.environment);
  writer.number(static_cast<std::uint32_t>(message.files.size()));
  for (const auto& file : message.files) {
    writer.text(file.path);
    writer.number(file.mode);
    writer.text(file.content);
  }
  return out;
}

std::optional<Spawn> decode_spawn(std::string_view payload) {
  Reader reader(payload);
  Spawn message;
  message.kind = reader.number<SpawnKind>();
  message.terminal = reader.number<Terminal>();
  message.after_exit = reader.number<AfterExit>();
  message.supervision = reader.number<Supervision>();
  message.channel = reader.number<Channel>();
  message.rows = reader.number<std::uint16_t>();
  message.columns = reader.number<std::uint16_t>();
  const auto reserved = reader.number<std::uint32_t>();
  message.output_limit = read_output_limit(reader);
  message.flood_limit = reader.number<std::uint64_t>();
  message.directory = reader.text();
  message.argv = reader.texts();
  message.environment = reader.texts();
  const auto files = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < files; ++i) {
    InlineFile file;
    file.path = reader.text();
    file.mode = reader.number<std::uint32_t>();
    file.content = reader.text();
    if (file.path.empty()) return std::nullopt;
    message.files.push_back(std::move(file));
  }
  const bool valid = reader.complete() && reserved == 0 && sane(message.output_limit) && !message.argv.empty() &&
                     (message.kind == SpawnKind::program || message.kind == SpawnKind::make_directory) &&
                     message.terminal <= Terminal::yes && message.after_exit <= AfterExit::end_sandbox &&
                     message.supervision <= Supervision::tree && message.channel <= Channel::open;
  if (!valid) return std::nullopt;
  return message;
}

std::string encode(const Output& message) {
  std::string out;
  out.reserve(message.bytes.size() + 24);
  Writer writer(out);
  writer.number(message.stream);
  writer.number(message.sequence);
  writer.number(message.offset);
  out.append(message.bytes);
  return out;
}

std::optional<Output> decode_output(std::string_view payload) {
  Reader reader(payload);
  Output message;
  message.stream = reader.number<Stream>();
  message.sequence = reader.number<std::uint64_t>();
  message.offset = reader.number<std::uint64_t>();
  message.bytes = reader.rest();
  if (!reader.complete() || !known(message.stream)) return std::nullopt;
  return message;
}

std::string encode(const Acknowledge& message) {
  std::string out;
  Writer writer(out);
  writer.number(message.stream);
  writer.number(message.offset);
  return out;
}

std::optional<Acknowledge> decode_acknowledge(std::string_view payload) {
  Reader reader(payload);
  Acknowledge message;
  message.stream = reader.number<Stream>();
  message.offset = reader.number<std::uint64_t>();
  if (!reader.complete() || !known(message.stream)) return std::nullopt;
  return message;
}

std::string encode(const SpawnFailed& message) {
  std::string out;
  Writer writer(out);
  writer.number(message.stage);
  writer.number(message.sys_errno);
  return out;
}

std::optional<SpawnFailed> decode_spawn_failed(std::string_view payload) {
  Reader reader(payload);
  SpawnFailed message;
  message.stage = reader.number<SpawnStage>();
  message.sys_errno = reader.number<std::int32_t>();
  if (!reader.complete() || message.stage > SpawnStage::program) return std::nullopt;
  return message;
}

std::string encode(const Exited& message) {
  std::string out;
  Writer writer(out);
  writer.number(message.exit_code);
  writer.number(message.signal);
  writer.number(message.out_bytes);
  writer.number(message.err_bytes);
  writer.number(message.cpu_usec);
  writer.number(message.disk_free_bytes);
  writer.number(message.disk_free_inodes);
  writer.number(message.made);
  return out;
}

std::optional<Exited> decode_exited(std::string_view payload) {
  Reader reader(payload);
  Exited message;
  message.exit_code = reader.number<std::int32_t>();
  message.signal = reader.number<std::int32_t>();
  message.out_bytes = reader.number<std::uint64_t>();
  message.err_bytes = reader.number<std::uint64_t>();
  message.cpu_usec = reader.number<std::uint64_t>();
  message.disk_free_bytes = reader.number<std::uint64_t>();
  message.disk_free_inodes = reader.number<std::uint64_t>();
  message.made = reader.number<std::uint32_t>();
  if (!reader.complete()) return std::nullopt;
  return message;
}

std::string encode_number(std::uint64_t value) {
  std::string out;
  Writer(out).number(value);
  return out;
}

std::optional<std::uint64_t> decode_number(std::string_view payload) {
  Reader reader(payload);
  const auto value = reader.number<std::uint64_t>();
  if (!reader.complete()) return std::nullopt;
  return value;
}

}  // namespace cove::wire
