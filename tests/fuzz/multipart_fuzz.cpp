// A form as a client sends it: the first line is the Content-Type, the rest the body. Built with -DCOVE_FUZZ=ON:
//   build-fuzz/tests/fuzz/multipart_fuzz -max_len=20000 corpus/
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "http/multipart.hpp"

namespace {

using namespace cove::http;

void must(bool holds) {
  if (!holds) std::abort();
}

class Checker : public PartSink {
 public:
  cove::Result<> begin_part(PartHead head) override {
    must(!open_ && !head.name.empty() && cove::valid_utf8(head.name));
    if (head.filename) must(cove::valid_utf8(*head.filename));
    open_ = true;
    seen += "[" + head.name + "|" + head.filename.value_or("-") + "]";
    return {};
  }
  cove::Result<> add_bytes(std::string_view bytes) override {
    must(open_ && !bytes.empty());
    seen += bytes;
    return {};
  }
  cove::Result<> end_part() override {
    must(open_);
    open_ = false;
    return {};
  }
  std::string seen;

 private:
  bool open_ = false;
};

struct Outcome {
  bool good = false;
  std::string seen;
};

Outcome read(std::string_view boundary, std::string_view body, std::size_t piece) {
  Checker sink;
  MultipartReader reader(boundary, sink);
  while (!body.empty()) {
    if (!reader.feed(body.substr(0, piece))) return {false, sink.seen};
    body.remove_prefix(std::min(piece, body.size()));
  }
  return {reader.finish().has_value(), sink.seen};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto line = input.substr(0, input.find('\n'));
  const auto body = input.substr(std::min(size, line.size() + 1));
  const auto head = parse_disposition(line);
  must(cove::valid_utf8(head.name) && (!head.filename || cove::valid_utf8(*head.filename)));
  const auto boundary = boundary_of(line).value_or("b");
  // In whatever pieces it comes, it must say the same.
  const auto whole = read(boundary, body, size + 1);
  const auto bytes = read(boundary, body, 1);
  const auto parts = read(boundary, body, 7);
  must(whole.good == bytes.good && whole.good == parts.good);
  if (whole.good) must(whole.seen == bytes.seen && whole.seen == parts.seen);
  return 0;
}
