#include "doors/mcp/es_module.hpp"

#include <gtest/gtest.h>

namespace cove::doors::mcp {
namespace {

TEST(EsModule, IsCodeThatImportsOrExportsAtTheBeginningOfALine) {
  for (const auto* code :
       {"import fs from 'fs'\n", "import 'x'", "import {a} from \"b\"", "import {\n  a\n} from 'b'", "import{a}from'b'",
        "export const a = 1", "let a = 1\nexport default a", "export {a}", "export{a}", "export * from 'b'",
        "const a = `x\n${1}`\nexport default a", "let r = /`/\nexport default r", "// '\nexport default 1",
        "const a = 4 / 2 // `\nexport default a", "const a = `${`${'}'}`}`\nexport default a",
        "/* ` */ let a = '`'\nexport default a"})
    EXPECT_TRUE(is_es_module(code)) << code;
}

TEST(EsModule, IsNoneForTheSakeOfWhatAStringOrCommentSays) {
  for (const auto* code :
       {"const a = `\nexport default 1\n`", "const a = `\nimport x from 'y'\n`", "/*\nimport x from 'y'\nexport x\n*/",
        "const a = `${1}\nexport const b`", "const a = 'x\\\nexport const b = 1'",
        "const a = `\\`\nexport default 1\n`", "const a = `${{b: 1}.b}\nexport default 1`",
        "const m = await import('fs')", "import('fs').then(f)", "exports.a = 1", "let exported = 1",
        "const r = /[/`]/; const a = `\nexport default 1\n`", "importantThing()"})
    EXPECT_FALSE(is_es_module(code)) << code;
}

TEST(EsModule, EndsWithTheCodeWhereverThatEnds) {
  for (const auto* code :
       {"export `", "import '", "import /*", "export ${", "import x from `${", "import /a[", "export \\", "import '\\"})
    EXPECT_NO_FATAL_FAILURE(static_cast<void>(is_es_module(code))) << code;
}

}  // namespace
}  // namespace cove::doors::mcp
