# What most files include of others' headers is read once, by everything whose flags are those of a room. Nothing of ours is
# in it: a file sees only what it includes of other rooms.
#
# It lies outside of the checkout, where every checkout with these flags, this compiler and these headers finds it: its path is
# part of what ccache compares, so objects compiled in one checkout serve another. What lies there is never changed.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
separate_arguments(cove_precompiled_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}} -std=c++${CMAKE_CXX_STANDARD}")
get_directory_property(options COMPILE_OPTIONS)
get_directory_property(definitions COMPILE_DEFINITIONS)
list(TRANSFORM definitions PREPEND -D)
get_target_property(sanitize cove_sanitize INTERFACE_COMPILE_OPTIONS)
if(NOT sanitize)
  set(sanitize)
endif()
list(APPEND cove_precompiled_flags ${options} ${definitions} ${sanitize} -fpch-instantiate-templates -Xclang -fno-pch-timestamp)

set(cove_precompiled_home "${PROJECT_BINARY_DIR}")
if(COVE_CCACHE AND DEFINED ENV{HOME} AND IS_DIRECTORY "$ENV{HOME}")
  # Where the home may be written to: somebody may build with another's, or with none.
  execute_process(COMMAND mkdir -p "$ENV{HOME}/.cache/cove-build" RESULT_VARIABLE refused ERROR_QUIET)
  if(NOT refused)
    execute_process(COMMAND test -w "$ENV{HOME}/.cache/cove-build" RESULT_VARIABLE refused)
  endif()
  if(NOT refused)
    set(cove_precompiled_home "$ENV{HOME}/.cache/cove-build")
  endif()
endif()

# What the headers are of.
execute_process(COMMAND dpkg-query -W -f "\${Package} \${Version} " libboost1.81-dev libc6-dev libexpected-dev libfmt-dev libgmock-dev libgtest-dev libstdc++-12-dev linux-libc-dev
  OUTPUT_VARIABLE cove_precompiled_packages ERROR_QUIET)

# cove_add_precompiled(NAME HEADERS … FLAGS …): makes NAME.pch of these headers; cove_use_precompiled(TARGET NAME) compiles with it.
function(cove_add_precompiled name)
  cmake_parse_arguments(PCH "" "" "HEADERS;FLAGS" ${ARGN})
  set(flags ${cove_precompiled_flags} ${PCH_FLAGS})
  set(text "")
  foreach(header IN LISTS PCH_HEADERS)
    string(APPEND text "#include ${header}\n")
  endforeach()
  string(SHA256 print "${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_VERSION} ${cove_precompiled_packages} ${flags} ${text}")
  string(SUBSTRING "${print}" 0 16 print)
  set(directory "${cove_precompiled_home}/${name}-${print}")
  file(CONFIGURE OUTPUT ${directory}/${name}.hpp CONTENT "${text}" @ONLY)
  set(made "${PROJECT_BINARY_DIR}/${name}.made")
  add_custom_command(OUTPUT "${made}"
    COMMAND "${PROJECT_SOURCE_DIR}/cmake/precompile" "${directory}/${name}.pch" ${CMAKE_CXX_COMPILER} ${flags} -x c++-header ${name}.hpp
    COMMAND ${CMAKE_COMMAND} -E touch "${made}"
    DEPENDS ${directory}/${name}.hpp
    WORKING_DIRECTORY ${directory}
    COMMENT "Precompiling ${name}.hpp" VERBATIM)
  add_custom_target(${name} DEPENDS "${made}")
  set(${name}_file ${directory}/${name}.pch CACHE INTERNAL "")
endfunction()

# Asio's headers are among them, so that every object needs its body.
function(cove_use_precompiled target name)
  add_dependencies(${target} ${name})
  target_link_libraries(${target} PRIVATE cove::boost)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include-pch \"${${name}_file}\">")
endfunction()

file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/precompiled.txt headers REGEX "^<")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/precompiled.txt)
cove_add_precompiled(cove_precompiled HEADERS ${headers})
if(COVE_TESTS)
  cove_add_precompiled(cove_precompiled_tests HEADERS ${headers} <gmock/gmock.h> <gtest/gtest.h> FLAGS -DGTEST_HAS_PTHREAD=1)
endif()
