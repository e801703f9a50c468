#include "http/multipart.hpp"

#include <gmock/gmock.h>

#include <array>

namespace cove::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Part {
  std::string name;
  std::string filename;  // "(none)" for a field
  std::string content;
  bool ended = false;
  bool operator==(const Part&) const = default;
};
void PrintTo(const Part& part, std::ostream* out) {
  *out << part.name << "/" << part.filename << "/" << part.content << (part.ended ? "" : "…");
}

class Collector : public PartSink {
 public:
  Result<> begin_part(PartHead head) override {
    parts.push_back({.name = head.name, .filename = head.filename.value_or("(none)"), .content = ""});
    return {};
  }
  Result<> add_bytes(std::string_view bytes) override {
    EXPECT_FALSE(bytes.empty());
    parts.back().content += bytes;
    return {};
  }
  Result<> end_part() override {
    parts.back().ended = true;
    return {};
  }
  std::vector<Part> parts;
};

struct Outcome {
  std::vector<Part> parts;
  std::string error;
};

Outcome read(std::string_view body, std::size_t piece, std::string_view boundary = "b") {
  Collector sink;
  MultipartReader reader(boundary, sink);
  while (!body.empty()) {
    if (const auto fed = reader.feed(body.substr(0, piece)); !fed) return {sink.parts, fed.error().message};
    body.remove_prefix(std::min(piece, body.size()));
  }
  const auto done = reader.finish();
  return {sink.parts, done ? "" : done.error().message};
}

// The same whatever the pieces it comes in.
Outcome read(std::string_view body) {
  const auto whole = read(body, body.size() + 1);
  for (const std::size_t piece : {1U, 2U, 3U, 5U, 7U, 64U}) {
    const auto again = read(body, piece);
    EXPECT_EQ(again.error, whole.error) << piece;
    if (whole.error.empty()) EXPECT_EQ(again.parts, whole.parts) << piece;
  }
  return whole;
}

std::string part(std::string_view disposition, std::string_view content) {
  return fmt::format("--b\r\nContent-Disposition: form-data; {}\r\nContent-Type: text/plain\r\n\r\n{}\r\n", disposition,
                     content);
}

TEST(Multipart, GivesFilesAndFields) {
  const auto got = read(part(R"(name="file"; filename="a.txt")", "one\r\ntwo") + part(R"(name="x")", "") + "--b--\r\n");
  EXPECT_EQ(got.error, "");
  EXPECT_THAT(got.parts, ElementsAre(Part{"file", "a.txt", "one\r\ntwo", true}, Part{"x", "(none)", "", true}));
}

TEST(Multipart, ContentMayLookLikeADelimiterForAWhile) {
  const std::string tricky = "\r\n--\r\n-b\r\n--\r\r\n--a\n--b\r--b\r\n-";
  const auto got = read(part(R"(name="file"; filename="a")", tricky) + "--b--");
  EXPECT_EQ(got.error, "");
  EXPECT_THAT(got.parts, ElementsAre(Part{"file", "a", tricky, true}));
}

TEST(Multipart, PreambleAndEpilogueCountForNothing) {
  const auto got = read("words\r\n" + part(R"(name="file"; filename="a")", "x") + "--b--\r\nmore words --b\r\n");
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.parts.size(), 1U);
}

TEST(Multipart, AFormMayBeEmpty) {
  const auto got = read("--b--\r\n");
  EXPECT_EQ(got.error, "");
  EXPECT_THAT(got.parts, IsEmpty());
}

TEST(Multipart, ANestedFormIsContent) {
  const std::string inner = "--c\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--c--\r\n";
  const auto got = read(part(R"(name="file"; filename="a")", inner) + "--b--");
  EXPECT_THAT(got.parts, ElementsAre(Part{"file", "a", inner, true}));
}

struct Row {
  const char* name;
  std::string_view given;
  const char* field;
  const char* filename;
};
class Disposition : public testing::TestWithParam<Row> {};

TEST_P(Disposition, IsUnderstood) {
  const auto head = parse_disposition(GetParam().given);
  EXPECT_EQ(head.name, GetParam().field);
  EXPECT_EQ(head.filename.value_or("(none)"), GetParam().filename);
}

INSTANTIATE_TEST_SUITE_P(
    , Disposition,
    testing::ValuesIn(std::to_array<Row>({
        {"Plain", R"(form-data; name="file"; filename="a.txt")", "file", "a.txt"},
        {"Field", R"(form-data; name="file")", "file", "(none)"},
        {"EmptyName", R"(form-data; name="file"; filename="")", "file", ""},
        {"Unquoted", "form-data; name=file; filename=a.txt", "file", "a.txt"},
        {"AnyCaseAndBlanks", R"(form-data ; NAME = "file" ;FileName= "a")", "file", "a"},
        {"RawUtf8", "form-data; name=\"file\"; filename=\"h\xc3\xa9.txt\"", "file", "h\xc3\xa9.txt"},
        {"Latin1", "form-data; name=\"file\"; filename=\"h\xe9.txt\"", "file", "h\xc3\xa9.txt"},
        {"PercentIsKept", R"(form-data; name="file"; filename="a%22b")", "file", "a%22b"},
        {"EscapedQuote", R"(form-data; name="file"; filename="a\"b")", "file", "a\"b"},
        {"Separators", R"(form-data; name="file"; filename="../a/b;c\d")", "file", "../a/b;c\\d"},
        {"WindowsPath", R"(form-data; name="file"; filename="C:\x\y")", "file", "C:\\x\\y"},
        {"Extended", "form-data; name=file; filename*=UTF-8''h%C3%A9.txt", "file", "h\xc3\xa9.txt"},
        {"ExtendedWins", "form-data; name=file; filename=x; filename*=utf-8'en'y", "file", "y"},
        {"BadExtendedIsNone", "form-data; name=file; filename=x; filename*=UTF-8''%ff", "file", "x"},
        {"Unterminated", R"(form-data; name="file"; filename="a)", "file", "a"},
        {"Nothing", "", "", "(none)"},
        {"OnlySigns", "===;;;==\"", "", "(none)"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

struct Bad {
  const char* name;
  std::string body;
};
class BadForm : public testing::TestWithParam<Bad> {};

TEST_P(BadForm, IsRefused) {
  EXPECT_NE(read(GetParam().body).error, "");
}

INSTANTIATE_TEST_SUITE_P(, BadForm,
                         testing::ValuesIn(std::to_array<Bad>({
                             {"Nothing", ""},
                             {"NoDelimiter", "just text"},
                             {"NoEnd", part(R"(name="file"; filename="a")", "x")},
                             {"EndsInContent", "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx"},
                             {"EndsInHeaders", "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n"},
                             {"NoHeaders", "--b\r\n\r\nx\r\n--b--"},
                             {"NoDisposition", "--b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--"},
                             {"NoColon", "--b\r\nnonsense\r\n\r\nx\r\n--b--"},
                             {"NoName", "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--"},
                             {"BareLineFeeds", "--b\nContent-Disposition: form-data; name=\"f\"\n\nx\n--b--"},
                             {"WordsBehindTheBoundary",
                              "--bx\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nx\r\n--bx--"},
                             {"EndlessBoundaryLine", "--b" + std::string(1000, ' ')},
                             {"LongHeader", "--b\r\nContent-Disposition: form-data; name=\"" +
                                                std::string(20'000, 'x') + "\"\r\n\r\nx\r\n--b--"},
                             {"LongHeaderWithoutEnd", "--b\r\n" + std::string(20'000, 'x')},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Multipart, AHeaderOfAGigabyteIsRefusedAfterALittleOfIt) {
  Collector sink;
  MultipartReader reader("b", sink);
  ASSERT_TRUE(reader.feed("--b\r\nX: "));
  const std::string piece(1 << 16, 'x');
  std::size_t taken = 0;
  while (taken < (1U << 30) && reader.feed(piece)) taken += piece.size();
  EXPECT_LT(taken, 4 * MultipartReader::kHeaderLimit);
}

TEST(Multipart, TooManyPartsAreRefused) {
  std::string body;
  for (std::size_t i = 0; i <= MultipartReader::kMaxParts; ++i) body += part("name=x", "");
  EXPECT_NE(read(body + "--b--", 4096).error, "");
}

TEST(Multipart, TheBoundaryComesFromTheContentType) {
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(boundary_of("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\""), "a b");
  EXPECT_EQ(boundary_of("multipart/form-data"), "");
  EXPECT_EQ(boundary_of("multipart/form-data; boundary="), "");
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=" + std::string(1000, 'x')), "");
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=\"\xff\""), "");
  EXPECT_EQ(boundary_of("application/json"), std::nullopt);
  EXPECT_EQ(boundary_of(""), std::nullopt);
}

}  // namespace
}  // namespace cove::http
