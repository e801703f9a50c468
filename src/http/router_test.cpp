#include "http/router.hpp"

#include <gtest/gtest.h>

#include <array>

#include "http/exchange.hpp"

namespace cove::http {
namespace {

async::Task<> nothing(Exchange&) {
  co_return;
}

Router sample() {
  Router router;
  router.add(verb::get, "/healthz", nothing, {.access = Access::open});
  router.add(verb::get, "/v1/sandboxes", nothing);
  router.add(verb::post, "/v1/sandboxes", nothing);
  router.add(verb::put, "/v1/sandboxes/{id}", nothing);
  router.add(verb::get, "/v1/sandboxes/{id}", nothing);
  router.add(verb::get, "/v1/sandboxes/{id}/processes/{pid}", nothing);
  router.add(verb::get, "/v1/sandboxes/special", nothing);
  router.add(verb::head, "/v1/headed", nothing);
  router.add(verb::get, "/v1/headed", nothing);
  router.add(verb::get, "/tree/{sid}/{path}", nothing, {.head = false, .strict = true, .rest = true});
  router.add(verb::get, "/tree/preview/{sid}/{path}", nothing, {.head = false, .strict = true, .rest = true});
  return router;
}

// "pattern name=value…", "404", "405 Allow" or "400".
std::string found(const Router& router, verb method, std::string_view path) {
  const auto result = router.find(method, path);
  if (const auto* found = std::get_if<Router::Found>(&result)) {
    std::string text(boost::beast::http::to_string(found->route->method));
    text += " " + found->route->pattern;
    for (const auto& [name, value] : found->params) text += " " + name + "=" + value;
    return text;
  }
  if (const auto* not_allowed = std::get_if<Router::NotAllowed>(&result)) return "405 " + not_allowed->allow;
  return std::holds_alternative<Router::NotFound>(result) ? "404" : "400";
}

struct Row {
  const char* name;
  verb method;
  std::string_view path;
  std::string_view want;
};
class Routes : public testing::TestWithParam<Row> {};

TEST_P(Routes, AreFoundOrRefused) {
  const auto router = sample();
  EXPECT_EQ(found(router, GetParam().method, GetParam().path), GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(
    , Routes,
    testing::ValuesIn(std::to_array<Row>({
        {"Text", verb::get, "/healthz", "GET /healthz"},
        {"Rest", verb::get, "/tree/s/a/b%20c", "GET /tree/{sid}/{path} sid=s path=a/b c"},
        {"RestIsKeptAsItIs", verb::get, "/tree/s//a//b/", "GET /tree/{sid}/{path} sid=s path=/a//b/"},
        {"RestMayBeEmpty", verb::get, "/tree/s/", "GET /tree/{sid}/{path} sid=s path="},
        {"RestMayBeMissing", verb::get, "/tree/s", "GET /tree/{sid}/{path} sid=s path="},
        {"TextBeforeRest", verb::get, "/tree/preview/s/f", "GET /tree/preview/{sid}/{path} sid=s path=f"},
        {"TooShortForTheTextBeforeRest", verb::get, "/tree/preview", "GET /tree/{sid}/{path} sid=preview path="},
        {"RestNeedsWhatIsBefore", verb::get, "/tree", "404"},
        {"RestOfAnotherMethod", verb::post, "/tree/s/a", "405 GET"},
        {"TextIsNotAPrefix", verb::get, "/healthz/", "404"},
        {"Parameter", verb::put, "/v1/sandboxes/demo", "PUT /v1/sandboxes/{id} id=demo"},
        {"EmptyParameter", verb::put, "/v1/sandboxes/", "PUT /v1/sandboxes/{id} id="},
        {"EmptyParameterGet", verb::get, "/v1/sandboxes/", "GET /v1/sandboxes/{id} id="},
        {"EmptyParameterInside", verb::get, "/v1/sandboxes//processes/",
         "GET /v1/sandboxes/{id}/processes/{pid} id= pid="},
        {"DecodedOnce", verb::get, "/v1/sandboxes/a%252Fb", "GET /v1/sandboxes/{id} id=a%2Fb"},
        {"SlashStaysInside", verb::get, "/v1/sandboxes/a%2Fb", "GET /v1/sandboxes/{id} id=a/b"},
        {"DotsAreText", verb::get, "/v1/sandboxes/..", "GET /v1/sandboxes/{id} id=.."},
        {"PlusIsPlus", verb::get, "/v1/sandboxes/a+b", "GET /v1/sandboxes/{id} id=a+b"},
        {"TwoSegments", verb::put, "/v1/sandboxes/a/b", "404"},
        {"TextWins", verb::get, "/v1/sandboxes/special", "GET /v1/sandboxes/special"},
        {"TextOfAnotherMethodDoesNot", verb::put, "/v1/sandboxes/special", "PUT /v1/sandboxes/{id} id=special"},
        {"EncodedText", verb::get, "/v1/%73andboxes", "GET /v1/sandboxes"},
        {"DoubledSlash", verb::get, "//v1/sandboxes", "404"},
        {"Unknown", verb::get, "/nothing", "404"},
        {"Root", verb::get, "/", "404"},
        {"Star", verb::options, "*", "404"},
        {"WrongMethod", verb::delete_, "/v1/sandboxes", "405 GET, HEAD, POST"},
        {"Options", verb::options, "/healthz", "405 GET, HEAD"},
        {"HeadByGet", verb::head, "/healthz", "GET /healthz"},
        {"HeadOfItsOwn", verb::head, "/v1/headed", "HEAD /v1/headed"},
        {"HeadOfPostOnly", verb::head, "/v1/sandboxes", "GET /v1/sandboxes"},
        {"CutPercent", verb::get, "/v1/sandboxes/a%2", "400"},
        {"BadPercent", verb::get, "/v1/sandboxes/%zz", "400"},
        {"Nul", verb::get, "/v1/sandboxes/a%00b", "400"},
        {"LineFeed", verb::get, "/v1/sandboxes/a%0Ab", "400"},
        {"Delete", verb::get, "/v1/sandboxes/a%7F", "400"},
        {"Overlong", verb::get, "/v1/sandboxes/..%c0%af", "400"},
        {"Utf8", verb::get, "/v1/sandboxes/%C3%A4", "GET /v1/sandboxes/{id} id=\xc3\xa4"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(StrictRoutes, HaveNoHeadNoEmptyParameterAndASlashThatLeadsBack) {
  Router router;
  const RouteOptions strict{.head = false, .strict = true};
  router.add(verb::get, "/v1/files", nothing, strict);
  router.add(verb::post, "/v1/files", nothing, strict);
  router.add(verb::get, "/v1/files/{id}", nothing, strict);
  EXPECT_TRUE(std::holds_alternative<Router::Found>(router.find(verb::get, "/v1/files/x")));
  const auto refused = router.find(verb::head, "/v1/files");
  ASSERT_TRUE(std::holds_alternative<Router::NotAllowed>(refused));
  EXPECT_EQ(std::get<Router::NotAllowed>(refused).allow, "GET, POST");
  for (const auto* path : {"/v1/files/", "/v1/files//"}) {
    const auto moved = router.find(verb::delete_, path);
    ASSERT_TRUE(std::holds_alternative<Router::Moved>(moved)) << path;
    EXPECT_EQ(std::get<Router::Moved>(moved).path, "/v1/files");
  }
  const auto moved = router.find(verb::get, "/v1/files/a%2Fb/");
  ASSERT_TRUE(std::holds_alternative<Router::Moved>(moved));
  EXPECT_EQ(std::get<Router::Moved>(moved).path, "/v1/files/a%2Fb");
  for (const auto* path : {"/", "//", "/v1/", "/v1/files/x/y", "/v1//files", "//v1/files/"})
    EXPECT_TRUE(std::holds_alternative<Router::NotFound>(router.find(verb::get, path))) << path;
}

TEST(Dialects, AreOfAPathAndWhatIsBelowIt) {
  Router router;
  router.set_dialect("/v1/files", [](Response response) { return response; });
  for (const auto* path : {"/v1/files", "/v1/files/", "/v1/files/x/y", "/v1/%66iles"})
    EXPECT_NE(router.dialect_of(path), nullptr) << path;
  for (const auto* path : {"/v1", "/v1/filesystem", "/", "", "*", "/v1/sandboxes/v1/files"})
    EXPECT_EQ(router.dialect_of(path), nullptr) << path;
}

TEST(Reach, OfABoundListenerIsTheScopedRoutes) {
  Router router;
  router.add(verb::get, "/files/{path}", nothing, {.rest = true, .scoped = true});
  router.add(verb::get, "/v1/sandboxes", nothing);
  router.add(verb::post, "/strict", nothing, {.strict = true});
  const auto reached = [&](verb method, std::string_view path) {
    return router.find(method, path, Reach::scoped).index();
  };
  EXPECT_TRUE(std::holds_alternative<Router::Found>(router.find(verb::get, "/files/a/b", Reach::scoped)));
  EXPECT_TRUE(std::holds_alternative<Router::NotAllowed>(router.find(verb::put, "/files/a/b", Reach::scoped)));
  // Of the others not even the methods are told, nor where they have moved.
  for (const auto* path : {"/v1/sandboxes", "/strict", "/strict/"}) {
    EXPECT_TRUE(std::holds_alternative<Router::NotFound>(router.find(verb::get, path, Reach::scoped))) << path;
  }
  EXPECT_TRUE(std::holds_alternative<Router::Found>(router.find(verb::get, "/v1/sandboxes")));
  EXPECT_NE(reached(verb::get, "/v1/sandboxes"), router.find(verb::get, "/v1/sandboxes").index());
}

TEST(Dialect, MayHaveAnySegmentInItsPath) {
  Router router;
  router.set_dialect("/v1/sandboxes/{}/resources", [](Response response) { return response; });
  EXPECT_NE(router.dialect_of("/v1/sandboxes/demo/resources/files/a"), nullptr);
  EXPECT_NE(router.dialect_of("/v1/sandboxes/a%2Fb/resources"), nullptr);
  EXPECT_EQ(router.dialect_of("/v1/sandboxes/demo/files"), nullptr);
  EXPECT_EQ(router.dialect_of("/v1/sandboxes/demo"), nullptr);
}

}  // namespace
}  // namespace cove::http
