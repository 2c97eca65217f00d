// Loading machine code: a relocatable ELF object (x86-64 or aarch64) becomes addresses of its functions.
//
// The object's sections, a table of addresses for symbols reached indirectly, and short jumps to runtime functions that may be far away, are laid out
// in whole pages of a reserved range; the pages are writable while relocations are applied and executable after, never both. Code is never unloaded.
// Objects may come from a cache on disk, so nothing in them is trusted: every offset is checked before it is used.
// Kernels may call memcpy, memmove and memset, which LLVM emits by itself; any other undefined symbol is an error that names it.
#include "platform.h"
#include "runtime.h"

namespace rl {

// --------------------------------------------------------------------------------------------------------- ELF, as far as needed
struct ElfHeader {
  uint8_t ident[16]; uint16_t type, machine; uint32_t version; uint64_t entry, phoff, shoff; uint32_t flags; uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
struct Section { uint32_t name, type; uint64_t flags, addr, offset, size; uint32_t link, info; uint64_t align, entsize; };
struct Symbol { uint32_t name; uint8_t info, other; uint16_t section; uint64_t value, size; };
struct Relocation { uint64_t offset, info; int64_t addend; };
enum : uint32_t { SHT_PROGBITS = 1, SHT_SYMTAB = 2, SHT_RELA = 4, SHT_NOBITS = 8 };
enum : uint64_t { SHF_WRITE = 1, SHF_ALLOC = 2 };
enum : uint16_t { SHN_UNDEF = 0, SHN_ABS = 0xfff1, SHN_COMMON = 0xfff2, EM_X86_64 = 62, EM_AARCH64 = 183 };
#if defined(__aarch64__) || defined(_M_ARM64)
const uint16_t HOST_MACHINE = EM_AARCH64;
#else
const uint16_t HOST_MACHINE = EM_X86_64;
#endif
const uint64_t LARGEST_IMAGE = (uint64_t)256 << 20;
const size_t STUB_BYTES = 16;              // a jump through an address that follows it

// ------------------------------------------------------------------------------------------------------------- code memory
const size_t SLAB_BYTES = (size_t)16 << 20;
static char *g_slab, *g_slab_end;
static int64_t g_code_bytes, g_objects;

static char* code_pages(size_t bytes) {    // whole pages, not yet accessible
  size_t page = platform::page_size();
  bytes = (bytes + page - 1) / page * page;
  if (bytes > SLAB_BYTES) return (char*)platform::reserve_code(bytes);
  if (!g_slab || (size_t)(g_slab_end - g_slab) < bytes) {
    g_slab = (char*)platform::reserve_code(SLAB_BYTES);
    g_slab_end = g_slab ? g_slab + SLAB_BYTES : nullptr;
    if (!g_slab) return nullptr;
  }
  char* p = g_slab;
  g_slab += bytes;
  return p;
}

static void* runtime_symbol(const char* name) {
  if (!strcmp(name, "memcpy")) return (void*)(void* (*)(void*, const void*, size_t))memcpy;
  if (!strcmp(name, "memmove")) return (void*)(void* (*)(void*, const void*, size_t))memmove;
  if (!strcmp(name, "memset")) return (void*)(void* (*)(void*, int, size_t))memset;
  return nullptr;
}

// ------------------------------------------------------------------------------------------------------------- one object
struct Loader {
  const char* bytes; size_t size;
  ElfHeader header;
  std::vector<Section> sections;
  std::vector<Symbol> symbols;
  const char* names = nullptr; size_t names_size = 0;      // of symbols
  std::vector<int64_t> place;                              // of each section in the image, -1: not loaded
  std::vector<int64_t> got, stub;                          // of each symbol in the image, -1: none
  std::vector<void*> foreign;                              // address of an undefined symbol
  char* image = nullptr; size_t image_size = 0;

  bool fail(const char* what) { raise(PyExc_RuntimeError, "cannot load the object: %s", what); return false; }
  bool inside(uint64_t offset, uint64_t length) const { return offset <= size && length <= size - offset; }
  template <class T> T read(uint64_t offset) const { T v; memcpy(&v, bytes + offset, sizeof v); return v; }

  const char* text(const char* base, size_t length, uint32_t at) const {      // a terminated string, or null
    return at < length && memchr(base + at, 0, length - at) ? base + at : nullptr;
  }

  bool read_headers() {
    if (size < sizeof(ElfHeader) || memcmp(bytes, "\x7f" "ELF\x02\x01", 6)) return fail("it is not a 64-bit little-endian ELF file");
    header = read<ElfHeader>(0);
    if (header.type != 1) return fail("it is not relocatable");
    if (header.machine != HOST_MACHINE) return fail("it was made for another processor");
    if (header.shentsize != sizeof(Section) || !inside(header.shoff, (uint64_t)header.shnum * sizeof(Section))) return fail("its section table is damaged");
    for (int i = 0; i < header.shnum; i++) {
      Section s = read<Section>(header.shoff + (uint64_t)i * sizeof(Section));
      if (s.type != SHT_NOBITS && !inside(s.offset, s.size)) return fail("a section lies outside the file");
      if (s.type == SHT_NOBITS && s.size > size + (1 << 20)) return fail("an empty section is too large");
      if (s.align > 4096 || (s.align & (s.align - 1))) return fail("a section's alignment is impossible");
      sections.push_back(s);
    }
    return true;
  }

  const char* section_name(const Section& s) const {
    if (header.shstrndx >= sections.size()) return "";
    const Section& t = sections[header.shstrndx];
    if (t.type == SHT_NOBITS) return "";
    const char* n = text(bytes + t.offset, t.size, s.name);
    return n ? n : "";
  }

  // Code and constants are loaded. Unwinding tables are not: kernels never throw. Writable data would be state, which kernels must not have;
  // constants that need relocation (.data.rel.ro) become read-only with the rest.
  bool lay_out_sections() {
    uint64_t at = 0;
    place.assign(sections.size(), -1);
    for (size_t i = 0; i < sections.size(); i++) {
      const Section& s = sections[i];
      if (!(s.flags & SHF_ALLOC) || !s.size) continue;
      const char* name = section_name(s);
      if (!strncmp(name, ".eh_frame", 9) || !strncmp(name, ".note", 5)) continue;
      if ((s.flags & SHF_WRITE) && strncmp(name, ".data.rel.ro", 12)) { raise(PyExc_RuntimeError, "cannot load the object: section '%s' is writable, and kernels have no state", name); return false; }
      uint64_t align = s.align > 16 ? s.align : 16;
      at = (at + align - 1) & ~(align - 1);
      place[i] = (int64_t)at;
      at += s.size;
      if (at > LARGEST_IMAGE) return fail("it is too large");
    }
    image_size = (size_t)((at + 15) & ~(uint64_t)15);
    return true;
  }

  bool read_symbols() {
    for (const Section& s : sections) {
      if (s.type != SHT_SYMTAB) continue;
      if (s.entsize != sizeof(Symbol) || s.link >= sections.size()) return fail("its symbol table is damaged");
      const Section& strings = sections[s.link];
      if (strings.type == SHT_NOBITS) return fail("its symbol table is damaged");
      names = bytes + strings.offset;
      names_size = strings.size;
      for (uint64_t k = 0; k + sizeof(Symbol) <= s.size; k += sizeof(Symbol)) symbols.push_back(read<Symbol>(s.offset + k));
    }
    got.assign(symbols.size(), -1);
    stub.assign(symbols.size(), -1);
    foreign.assign(symbols.size(), nullptr);
    return true;
  }
  const char* symbol_name(size_t i) const {
    const Symbol& s = symbols[i];
    const char* n = names ? text(names, names_size, s.name) : nullptr;
    if ((!n || !*n) && s.section < sections.size()) n = section_name(sections[s.section]);      // a section's own symbol has no name
    return n ? n : "";
  }

  static bool through_table(uint32_t type) {             // relocations that want the symbol's address in memory
    return HOST_MACHINE == EM_X86_64 ? type == 9 || type == 41 || type == 42 : type == 311 || type == 312;
  }

  template <class F> bool each_relocation(F&& visit) {
    for (const Section& s : sections) {
      if (s.type != SHT_RELA) continue;
      if (s.info >= sections.size() || s.entsize != sizeof(Relocation)) return fail("its relocations are damaged");
      if (place[s.info] < 0) continue;
      for (uint64_t k = 0; k + sizeof(Relocation) <= s.size; k += sizeof(Relocation)) {
        Relocation r = read<Relocation>(s.offset + k);
        if ((r.info >> 32) >= symbols.size() || r.offset >= sections[s.info].size) return fail("a relocation points outside its section");
        if (!visit(s.info, r)) return false;
      }
    }
    return true;
  }

  // Before memory is taken: which symbols need a place in the address table or a jump, and are all of them known?
  bool collect_symbols() {
    bool good = each_relocation([&](uint32_t, const Relocation& r) {
      size_t k = (size_t)(r.info >> 32);
      const Symbol& s = symbols[k];
      if (s.section == SHN_UNDEF && k != 0) {
        const char* name = symbol_name(k);
        if (!(foreign[k] = runtime_symbol(name))) { raise(PyExc_RuntimeError, "cannot load the object: undefined symbol '%s' (only memcpy, memmove and memset exist in the runtime)", name); return false; }
        if (stub[k] < 0) { stub[k] = (int64_t)image_size; image_size += STUB_BYTES; }
      } else if (s.section == SHN_COMMON || (s.section < 0xff00 && s.section >= sections.size()) || (s.section >= 0xff00 && s.section != SHN_ABS)) {
        return fail("a symbol has no section");
      } else if (s.section < 0xff00 && k != 0 && place[s.section] < 0) return fail("code refers to a section that is not loaded");
      if (through_table((uint32_t)r.info) && got[k] < 0) { got[k] = -2; }
      return true;
    });
    for (auto& g : got) if (g == -2) { g = (int64_t)image_size; image_size += 8; }
    return good;
  }

  uint64_t symbol_address(size_t k) const {
    const Symbol& s = symbols[k];
    if (foreign[k]) return (uint64_t)(uintptr_t)foreign[k];
    if (s.section == SHN_ABS) return s.value;
    if (s.section == SHN_UNDEF) return 0;
    return (uint64_t)(uintptr_t)(image + place[s.section]) + s.value;
  }

  bool copy_image() {
    image = code_pages(image_size);
    if (!image || !platform::open_code(image, image_size)) { raise(PyExc_MemoryError, "no memory for %zd bytes of machine code", (Py_ssize_t)image_size); return false; }
    memset(image, 0, image_size);
    for (size_t i = 0; i < sections.size(); i++)
      if (place[i] >= 0 && sections[i].type != SHT_NOBITS) memcpy(image + place[i], bytes + sections[i].offset, (size_t)sections[i].size);
    for (size_t k = 0; k < symbols.size(); k++) {
      if (got[k] < 0 && stub[k] < 0) continue;            // not referred to, so not checked either
      uint64_t address = symbol_address(k);
      if (got[k] >= 0) memcpy(image + got[k], &address, 8);
      if (stub[k] < 0) continue;
      char* s = image + stub[k];
      if (HOST_MACHINE == EM_X86_64) {
        memcpy(s, "\xff\x25\x00\x00\x00\x00", 6);         // jmp [rip]
        memcpy(s + 6, &address, 8);
      } else {
        const uint32_t jump[] = {0x58000050, 0xd61f0200};  // ldr x16, [pc + 8]; br x16
        memcpy(s, jump, 8);
        memcpy(s + 8, &address, 8);
      }
    }
    return true;
  }

  bool too_far(const char* name) { raise(PyExc_RuntimeError, "cannot load the object: '%s' is out of a relocation's reach", name); return false; }
  bool unknown(uint32_t type) { raise(PyExc_RuntimeError, "cannot load the object: relocation type %u is not supported", (unsigned)type); return false; }

  bool relocate_x86(char* where, size_t room, size_t k, uint32_t type, int64_t addend) {
    uint64_t p = (uint64_t)(uintptr_t)where, s = symbol_address(k);
    if (type == 4 && stub[k] >= 0) s = (uint64_t)(uintptr_t)(image + stub[k]);
    auto narrow = [&](int64_t v, bool is_signed) {
      if (room < 4) return fail("a relocation crosses the end of its section");
      if (is_signed ? v != (int32_t)v : v != (int64_t)(uint32_t)v) return too_far(symbol_name(k));
      uint32_t w = (uint32_t)v;
      memcpy(where, &w, 4);
      return true;
    };
    auto wide = [&](uint64_t v) {
      if (room < 8) return fail("a relocation crosses the end of its section");
      memcpy(where, &v, 8);
      return true;
    };
    switch (type) {
      case 0: return true;
      case 1: return wide(s + (uint64_t)addend);                                              // 64
      case 2: case 4: return narrow((int64_t)(s + (uint64_t)addend - p), true);               // PC32, PLT32
      case 9: case 41: case 42: return narrow((int64_t)((uint64_t)(uintptr_t)(image + got[k]) + (uint64_t)addend - p), true);   // GOTPCREL(X): through the table
      case 10: return narrow((int64_t)(s + (uint64_t)addend), false);                         // 32
      case 11: return narrow((int64_t)(s + (uint64_t)addend), true);                          // 32S
      case 24: return wide(s + (uint64_t)addend - p);                                         // PC64
      default: return unknown(type);
    }
  }

  bool relocate_arm(char* where, size_t room, size_t k, uint32_t type, int64_t addend) {
    uint64_t p = (uint64_t)(uintptr_t)where, s = symbol_address(k), target = s + (uint64_t)addend;
    if (room < 4) return fail("a relocation crosses the end of its section");
    uint32_t code;
    memcpy(&code, where, 4);
    auto put = [&](uint32_t v) { memcpy(where, &v, 4); return true; };
    auto fits = [](int64_t v, int bits) { return v >= -((int64_t)1 << (bits - 1)) && v < ((int64_t)1 << (bits - 1)); };
    auto page = [](uint64_t a) { return a & ~(uint64_t)0xfff; };
    auto adr = [&](int64_t v) { return put((code & ~((3u << 29) | (0x7ffffu << 5))) | ((uint32_t)v & 3) << 29 | (((uint32_t)(v >> 2)) & 0x7ffff) << 5); };
    auto low12 = [&](uint64_t a, int shift) {
      if ((a & 0xfff) & ((1u << shift) - 1)) return fail("an address is not aligned for its instruction");
      return put((code & ~(0xfffu << 10)) | (uint32_t)((a & 0xfff) >> shift) << 10);
    };
    switch (type) {
      case 0: case 256: return true;
      case 257: if (room < 8) return fail("a relocation crosses the end of its section"); memcpy(where, &target, 8); return true;      // ABS64
      case 260: if (room < 8) return fail("a relocation crosses the end of its section"); target -= p; memcpy(where, &target, 8); return true;   // PREL64
      case 258: return target == (uint32_t)target ? put((uint32_t)target) : too_far(symbol_name(k));                                    // ABS32
      case 261: { int64_t v = (int64_t)(target - p); return fits(v, 32) ? put((uint32_t)v) : too_far(symbol_name(k)); }                 // PREL32
      case 274: { int64_t v = (int64_t)(target - p); return fits(v, 21) ? adr(v) : too_far(symbol_name(k)); }                           // ADR_PREL_LO21
      case 275: case 276: { int64_t v = (int64_t)(page(target) - page(p)) >> 12; return fits(v, 21) ? adr(v) : too_far(symbol_name(k)); }   // ADR_PREL_PG_HI21
      case 277: case 278: return low12(target, 0);                                                                                      // ADD, LDST8
      case 284: return low12(target, 1);
      case 285: return low12(target, 2);
      case 286: return low12(target, 3);
      case 299: return low12(target, 4);
      case 273: case 280: { int64_t v = (int64_t)(target - p); return fits(v, 21) ? put((code & ~(0x7ffffu << 5)) | ((uint32_t)(v >> 2) & 0x7ffff) << 5) : too_far(symbol_name(k)); }
      case 279: { int64_t v = (int64_t)(target - p); return fits(v, 16) ? put((code & ~(0x3fffu << 5)) | ((uint32_t)(v >> 2) & 0x3fff) << 5) : too_far(symbol_name(k)); }
      case 282: case 283: {                                                                                                             // JUMP26, CALL26
        if (stub[k] >= 0) target = (uint64_t)(uintptr_t)(image + stub[k]) + (uint64_t)addend;
        int64_t v = (int64_t)(target - p);
        return fits(v, 28) ? put((code & ~0x3ffffffu) | ((uint32_t)(v >> 2) & 0x3ffffff)) : too_far(symbol_name(k));
      }
      case 311: { int64_t v = (int64_t)(page((uint64_t)(uintptr_t)(image + got[k])) - page(p)) >> 12; return fits(v, 21) ? adr(v) : too_far(symbol_name(k)); }   // ADR_GOT_PAGE
      case 312: return low12((uint64_t)(uintptr_t)(image + got[k]), 3);                                                                 // LD64_GOT_LO12_NC
      default: return unknown(type);
    }
  }

  bool relocate() {
    return each_relocation([&](uint32_t section, const Relocation& r) {
      char* where = image + place[section] + r.offset;
      size_t room = (size_t)(sections[section].size - r.offset), k = (size_t)(r.info >> 32);
      uint32_t type = (uint32_t)r.info;
      return HOST_MACHINE == EM_X86_64 ? relocate_x86(where, room, k, type, r.addend) : relocate_arm(where, room, k, type, r.addend);
    });
  }

  PyObject* exported() {
    PyObject* d = PyDict_New();
    for (size_t k = 1; d && k < symbols.size(); k++) {
      const Symbol& s = symbols[k];
      int binding = s.info >> 4;
      if (binding == 0 || s.section == SHN_UNDEF || s.section >= sections.size() || place[s.section] < 0 || s.value >= sections[s.section].size) continue;
      PyObject* address = PyLong_FromUnsignedLongLong(symbol_address(k));
      if (!address || PyDict_SetItemString(d, symbol_name(k), address) < 0) Py_CLEAR(d);
      Py_XDECREF(address);
    }
    return d;
  }

  PyObject* load() {
    if (!read_headers() || !lay_out_sections() || !read_symbols() || !collect_symbols()) return nullptr;
    if (!image_size) return PyDict_New();
    if (!copy_image() || !relocate()) return nullptr;
    if (!platform::seal_code(image, image_size)) return raise(PyExc_RuntimeError, "cannot load the object: the system refuses to make memory executable");
    g_code_bytes += (int64_t)image_size;
    ++g_objects;
    return exported();
  }
};

static PyObject* load_object(PyObject*, PyObject* o) {
  Py_buffer view;
  if (PyObject_GetBuffer(o, &view, PyBUF_SIMPLE) < 0) return nullptr;
  Loader loader{(const char*)view.buf, (size_t)view.len};
  PyObject* r = loader.load();
  PyBuffer_Release(&view);
  return r;
}

static PyMethodDef loader_methods[] = {{"load_object", load_object, METH_O, "load_object(bytes) -> {symbol: address}\n\nLay a relocatable ELF object out in executable memory."}, {}};
bool init_loader(PyObject* m) {
  stat_register("code_bytes", &g_code_bytes);
  stat_register("objects", &g_objects);
  return PyModule_AddFunctions(m, loader_methods) == 0;
}

}  // namespace rl
