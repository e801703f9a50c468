// The body of toml++, compiled once.
#define TOML_IMPLEMENTATION
#include "config/toml.hpp"
