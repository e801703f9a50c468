# Everything that is not ours, found in one place. Linked statically where Debian has it so: the product is one binary.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS json url)
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp)

# SHA-256 is nettle's: 4 MB smaller than libcrypto, and nothing to set up at start.
find_library(COVE_NETTLE libnettle.a REQUIRED)
find_library(COVE_SSL libssl.a REQUIRED)
find_library(COVE_CRYPTO libcrypto.a REQUIRED)
find_library(COVE_SQLITE libsqlite3.a REQUIRED)
find_library(COVE_ARCHIVE libarchive.a REQUIRED)
find_library(COVE_ZLIB libz.a REQUIRED)
# International host names; libidn2 needs the tables of libunistring.
find_library(COVE_IDN2 libidn2.a REQUIRED)
find_library(COVE_UNISTRING libunistring.a REQUIRED)

# The same for every file, so that one precompiled header serves them all.
add_compile_definitions(BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION
  BOOST_CONTAINER_NO_LIB BOOST_JSON_NO_LIB BOOST_URL_NO_LIB)

# fmt's body is compiled once, here; its target would bring a shared library along.
add_library(cove_fmt STATIC ${PROJECT_SOURCE_DIR}/src/base/fmt.cpp)
add_library(cove::fmt ALIAS cove_fmt)
target_include_directories(cove_fmt INTERFACE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)

# So are the bodies of Asio and Beast, in an object each, so that who needs no TLS takes none of OpenSSL along; and in sections, so
# that the file helper takes no more than it calls.
add_library(cove_boost STATIC
  ${PROJECT_SOURCE_DIR}/src/async/asio.cpp ${PROJECT_SOURCE_DIR}/src/async/asio_ssl.cpp ${PROJECT_SOURCE_DIR}/src/async/beast.cpp)
add_library(cove::boost ALIAS cove_boost)
target_link_libraries(cove_boost PUBLIC Boost::headers Threads::Threads PRIVATE cove_sanitize)
target_compile_options(cove_boost PRIVATE -ffunction-sections -fdata-sections)

if(COVE_TESTS)
  enable_testing()
  include(GoogleTest)
  find_package(GTest REQUIRED)
endif()
