# Puts a file into the binary as `extern "C" const unsigned char SYMBOL[]` and `SYMBOL_end[]`.
function(cove_embed target symbol file)
  set(asm ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.S)
  file(CONFIGURE OUTPUT ${asm} CONTENT [[
.section .rodata
.balign 4096
.global @symbol@
.global @symbol@_end
@symbol@:
.incbin "@file@"
@symbol@_end:
.byte 0
.section .note.GNU-stack,"",@progbits
]] @ONLY)
  set_source_files_properties(${asm} PROPERTIES OBJECT_DEPENDS ${file})
  target_sources(${target} PRIVATE ${asm})
endfunction()

# Every listed file below `directory`, one after the other: sizes of name and content (32 bits each), name, content.
function(cove_embed_tree target symbol directory)
  set(asm ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.S)
  set(content ".section .rodata\n.balign 4096\n.global ${symbol}\n.global ${symbol}_end\n${symbol}:\n")
  set(files)
  foreach(name IN LISTS ARGN)
    string(APPEND content ".long 1f-0f\n.long 3f-2f\n0: .ascii \"${name}\"\n1:\n2: .incbin \"${directory}/${name}\"\n3:\n")
    list(APPEND files ${directory}/${name})
  endforeach()
  string(APPEND content "${symbol}_end:\n.byte 0\n.section .note.GNU-stack,\"\",@progbits\n")
  file(CONFIGURE OUTPUT ${asm} CONTENT "${content}" @ONLY)
  set_source_files_properties(${asm} PROPERTIES OBJECT_DEPENDS "${files}")
  target_sources(${target} PRIVATE ${asm})
endfunction()
