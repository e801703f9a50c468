#include "run/light.hpp"

#include <gtest/gtest.h>

namespace cove::run {
namespace {

TEST(Light, IsAProgramThatImportsNumpyAndTheStandardLibrary) {
  for (const char* code : {"", "print(1)", "import numpy\nprint(numpy.arange(10).sum())", "import numpy as np, os.path",
                           "from numpy.linalg import norm", "if True:\n\timport json, re\n", "x = 1; import math",
                           "important = 1  # reimport", "from collections import (\n  Counter,\n  deque)"})
    EXPECT_TRUE(is_light(code)) << code;
}

TEST(Light, IsNoProgramThatImportsOrMightImportAnythingElse) {
  for (const char* code :
       {"import pandas", "import numpy, pandas", "import numpy as np, matplotlib.pyplot as plt",
        "from PIL import Image", "x = 1; import seaborn", "import os; import pandas", "__import__('pandas')",
        "import importlib", "importlib.import_module(x)", "from . import a", "import", "import \\\n  pandas",
        "exec('import pandas')", "from\tpandas import DataFrame", "if x: from pandas import json"})
    EXPECT_FALSE(is_light(code)) << code;
}

}  // namespace
}  // namespace cove::run
