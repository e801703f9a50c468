# A room is a folder, a library and a namespace of one name (docs/ARCHITECTURE.md).
#
#   cove_room(sys SOURCES a.cpp HEADERS a.hpp LINKS cove::base TESTS a_test.cpp)
#
# With COVE_UNITY its sources are compiled eight at a time, since they include mostly the same headers. APART names those that
# share a name of an anonymous namespace with another source, or hold the body of a header-only library, and are compiled alone.
#
# The tests need neither root nor a server: what needs a kernel lives in tests/.
function(cove_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;HEADERS;LINKS;PRIVATE_LINKS;APART;TESTS" ${ARGN})
  add_library(cove_${name} STATIC)
  add_library(cove::${name} ALIAS cove_${name})
  target_sources(cove_${name} PRIVATE ${ROOM_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${ROOM_HEADERS})
  target_link_libraries(cove_${name} PUBLIC ${ROOM_LINKS} PRIVATE cove::warnings cove_sanitize ${ROOM_PRIVATE_LINKS})
  cove_use_precompiled(cove_${name} cove_precompiled)
  set_target_properties(cove_${name} PROPERTIES UNITY_BUILD ${COVE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${ROOM_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(COVE_TESTS AND ROOM_TESTS)
    add_executable(${name}_test ${ROOM_TESTS})
    target_link_libraries(${name}_test PRIVATE cove::${name} ${ROOM_PRIVATE_LINKS} cove::warnings cove_sanitize GTest::gmock_main)
    cove_use_precompiled(${name}_test cove_precompiled_tests)
    gtest_discover_tests(${name}_test NO_PRETTY_VALUES PROPERTIES LABELS unit)
  endif()
endfunction()
