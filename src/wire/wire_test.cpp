#include <gmock/gmock.h>

#include "wire/init_messages.hpp"

namespace cove::wire {
namespace {

Spawn sample() {
  return Spawn{
      .kind = SpawnKind::program,
      .terminal = Terminal::yes,
      .rows = 50,
      .columns = 132,
      .output_limit = {.bytes = 1 << 20, .kept = Kept::both_ends},
      .flood_limit = 1ULL << 40,
      .directory = "/workspace",
      .argv = {"python3", "-c", std::string("a\0b", 3)},
      .environment = {"A=1", "B="},
      .files = {{.path = "/workspace/main.py", .mode = 0755, .content = "print(1)\n"}},
  };
}

TEST(Spawn, ComesBackAsItWent) {
  const auto back = decode_spawn(encode(sample()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->argv, sample().argv);
  EXPECT_EQ(back->environment, sample().environment);
  EXPECT_EQ(back->directory, "/workspace");
  EXPECT_EQ(back->flood_limit, 1ULL << 40);
  EXPECT_EQ(back->files.at(0).content, "print(1)\n");
  EXPECT_EQ(back->files.at(0).mode, 0755U);
}

TEST(Spawn, RefusesEveryTruncation) {
  const auto whole = encode(sample());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_spawn(std::string_view(whole).substr(0, size))) << size;
}

TEST(Spawn, RefusesBytesLeftOver) {
  EXPECT_FALSE(decode_spawn(encode(sample()) + "x"));
}

TEST(Spawn, RefusesNoProgramAndUnknownKinds) {
  auto message = sample();
  message.argv.clear();
  EXPECT_FALSE(decode_spawn(encode(message)));
  message = sample();
  for (const int kind : {1, 2, 4, 9}) {
    message.kind = static_cast<SpawnKind>(kind);
    EXPECT_FALSE(decode_spawn(encode(message))) << kind;
  }
}

TEST(Output, RefusesAStreamThatDoesNotExist) {
  EXPECT_FALSE(decode_output(encode(Output{.stream = static_cast<Stream>(4), .offset = 0, .bytes = "x"})));
  EXPECT_FALSE(decode_output(""));
}

TEST(Exited, ComesBackAsItWent) {
  const auto back = decode_exited(encode(Exited{.exit_code = -1, .signal = 9, .out_bytes = 5, .disk_free_bytes = 7}));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->exit_code, -1);
  EXPECT_EQ(back->signal, 9);
  EXPECT_EQ(back->out_bytes, 5U);
  EXPECT_EQ(back->disk_free_bytes, 7U);
}

TEST(FrameReader, CutsAStreamThatArrivesByteByByte) {
  std::string stream;
  append_frame(stream, FrameType::input, 7, "hello");
  append_frame(stream, FrameType::input_end, 7, "");
  FrameReader reader;
  std::vector<std::string> seen;
  for (const char c : stream) {
    reader.append(std::string_view(&c, 1));
    while (const auto frame = reader.next()) seen.emplace_back(frame->payload);
  }
  EXPECT_THAT(seen, testing::ElementsAre("hello", ""));
}

TEST(FrameReader, BreaksOnAFrameThatIsTooLarge) {
  std::string header("\xff\xff\xff\xff\x01\x00\x00\x00\x01\x00\x00\x00", 12);
  FrameReader reader;
  reader.append(header);
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.broken());
}

}  // namespace
}  // namespace cove::wire
