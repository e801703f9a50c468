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
