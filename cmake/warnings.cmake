# What every target of ours is compiled with. Link `cove::warnings` privately.
add_library(cove_warnings INTERFACE)
add_library(cove::warnings ALIAS cove_warnings)
target_compile_options(cove_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wnull-dereference -Wimplicit-fallthrough -Wmissing-declarations -Werror
  -Wno-missing-field-initializers -Wno-missing-designated-field-initializers)

# Hardening of everything that runs on the host.
add_compile_options(-fstack-protector-strong -D_GLIBCXX_ASSERTIONS -fcf-protection=full -ftrivial-auto-var-init=zero)
if(NOT COVE_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL Release)
  add_compile_definitions(_FORTIFY_SOURCE=3)
endif()
add_link_options(-fuse-ld=lld -Wl,-z,relro,-z,now,-z,noexecstack)
# Libraries and programs alike: one precompiled header serves both.
add_compile_options(-fPIE)

# The sanitizers cover all of Cove but cove-init, which is static and runs as pid 1 under seccomp.
add_library(cove_sanitize INTERFACE)
if(COVE_SANITIZE)
  target_compile_options(cove_sanitize INTERFACE -fsanitize=${COVE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(cove_sanitize INTERFACE -fsanitize=${COVE_SANITIZE})
endif()

# Code under a fuzzer tells it where it has been. tests/fuzz links the fuzzer itself.
if(COVE_FUZZ)
  target_compile_options(cove_sanitize INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(cove_sanitize INTERFACE -fsanitize=fuzzer-no-link)
endif()
