// The operating system, behind one file: aligned memory, mapped pages, what must happen around fork.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <windows.h>
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#ifdef __linux__
#include <sys/sysinfo.h>
#endif
#include <unistd.h>
#endif

namespace rl::platform {

// A shared library by its path; null when it cannot be opened (library_error says why).
#ifdef _WIN32
inline void* library_open(const char* path) { return (void*)LoadLibraryA(path); }
inline void* library_symbol(void* library, const char* name) { return (void*)GetProcAddress((HMODULE)library, name); }
inline const char* library_error() { return "LoadLibrary failed"; }
#else
inline void* library_open(const char* path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
inline void* library_symbol(void* library, const char* name) { return dlsym(library, name); }
inline const char* library_error() { return dlerror(); }
#endif

inline size_t page_size() {
#ifdef _WIN32
  static size_t size = [] { SYSTEM_INFO info; GetSystemInfo(&info); return (size_t)info.dwPageSize; }();
#else
  static size_t size = (size_t)sysconf(_SC_PAGESIZE);
#endif
  return size;
}

// Memory aligned to `alignment` (a power of two); null when there is none.
inline void* aligned_new(size_t alignment, size_t bytes) {
  bytes = (bytes + alignment - 1) & ~(alignment - 1);
#ifdef _WIN32
  return _aligned_malloc(bytes, alignment);
#else
  return std::aligned_alloc(alignment, bytes);
#endif
}
inline void aligned_free(void* p) {
#ifdef _WIN32
  _aligned_free(p);
#else
  std::free(p);
#endif
}

// Whole pages of zeroed private memory; null when there is none. `huge` asks for large pages where the system offers them:
// they make the first touch of a big tensor several times cheaper.
inline void* map_pages(size_t bytes, bool huge = false) {
#ifdef _WIN32
  (void)huge;
  return VirtualAlloc(nullptr, bytes, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
#else
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
  if (huge) (void)madvise(p, bytes, MADV_HUGEPAGE);
#else
  (void)huge;
#endif
  return p;
#endif
}
inline void unmap_pages(void* p, size_t bytes) {
#ifdef _WIN32
  (void)bytes;
  VirtualFree(p, 0, MEM_RELEASE);
#else
  munmap(p, bytes);
#endif
}
// Any access to these pages ends the process: how guard-page mode catches kernels that step outside.
inline bool protect_pages(void* p, size_t bytes) {
#ifdef _WIN32
  DWORD old;
  return VirtualProtect(p, bytes, PAGE_NOACCESS, &old) != 0;
#else
  return mprotect(p, bytes, PROT_NONE) == 0;
#endif
}

// Memory that other processes can map: an object known by its file descriptor only (it has no name, or its name is gone before anybody else could
// use it), so it disappears with the last process that holds it. -1 and null on failure, errno says why.
//
// Linux has such objects outside of any file system (memfd), which a container's small /dev/shm does not limit. Elsewhere, where a sandbox forbids
// them, or with RUSHLIGHT_SHARED_MEMORY=shm, they are files of /dev/shm. Both are given pages when they are written to, and a process that writes where
// there are none left is killed: so the room is compared first. `room`: the bytes there are, when that is why it failed; else -1.
#ifndef _WIN32
inline long long memory_available(long long at_least) {      // -1: enough for this, or not known
#ifdef __linux__
  struct sysinfo all;
  if (sysinfo(&all) != 0 || at_least < (long long)(all.totalram / 16) * (long long)all.mem_unit) return -1;       // a small part: not worth reading a file
  FILE* file = fopen("/proc/meminfo", "r");
  if (!file) return -1;
  char line[128];
  long long kilobytes = -1;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %lld kB", &kilobytes) == 1) break;
  fclose(file);
  return kilobytes < 0 || kilobytes * 1024 >= at_least ? -1 : kilobytes * 1024;
#else
  (void)at_least;
  return -1;
#endif
}
inline int shared_sized(int fd, size_t bytes) {
  if (fd < 0 || ftruncate(fd, (off_t)bytes) == 0) return fd;
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}
inline int shared_new(size_t bytes, long long* room) {
  *room = memory_available((long long)bytes);
  if (*room >= 0) { errno = ENOMEM; return -1; }
  const char* wanted = getenv("RUSHLIGHT_SHARED_MEMORY");
#ifdef MFD_CLOEXEC
  if (!wanted || std::strcmp(wanted, "shm") != 0) {
    int fd = memfd_create("rushlight", MFD_CLOEXEC);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EACCES)) return shared_sized(fd, bytes);
  }
#endif
  (void)wanted;
  for (unsigned attempt = 0; attempt < 64; attempt++) {
    static unsigned serial = 0;
    char name[64];
    snprintf(name, sizeof name, "/rushlight_%lld_%u", (long long)getpid(), serial++);
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return -1;
    shm_unlink(name);
    struct statvfs system;
    if (fstatvfs(fd, &system) == 0 && (unsigned long long)system.f_bavail * system.f_frsize < bytes) {
      *room = (long long)((unsigned long long)system.f_bavail * system.f_frsize);
      close(fd);
      errno = ENOSPC;
      return -1;
    }
    return shared_sized(fd, bytes);
  }
  return -1;
}
inline void* shared_map(int fd, size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return p == MAP_FAILED ? nullptr : p;
}
inline long long shared_size(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? (long long)status.st_size : -1;
}
inline void shared_unmap(void* p, size_t bytes) { munmap(p, bytes); }
inline void handle_close(int fd) { close(fd); }
#else
inline int shared_new(size_t, long long* room) { *room = -1; errno = ENOSYS; return -1; }
inline void* shared_map(int, size_t) { return nullptr; }
inline long long shared_size(int) { return -1; }
inline void shared_unmap(void*, size_t) {}
inline void handle_close(int) {}
#endif

// Memory for machine code: reserved as one range, then page by page opened for writing and sealed for running, never both at once.
inline void* reserve_code(size_t bytes) {
#ifdef _WIN32
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS);
#else
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
#endif
}
inline bool open_code(void* p, size_t bytes) {
#ifdef _WIN32
  return VirtualAlloc(p, bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
#else
  return mprotect(p, bytes, PROT_READ | PROT_WRITE) == 0;
#endif
}
inline bool seal_code(void* p, size_t bytes) {
#ifdef _WIN32
  DWORD old;
  return VirtualProtect(p, bytes, PAGE_EXECUTE_READ, &old) && FlushInstructionCache(GetCurrentProcess(), p, bytes);
#else
  __builtin___clear_cache((char*)p, (char*)p + bytes);
  return mprotect(p, bytes, PROT_READ | PROT_EXEC) == 0;
#endif
}

// Bytes of memory in the machine, to bound what is kept in caches.
inline size_t physical_memory() {
#ifdef _WIN32
  MEMORYSTATUSEX status;
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? (size_t)status.ullTotalPhys : (size_t)1 << 32;
#else
  auto pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? (size_t)pages * page_size() : (size_t)1 << 32;
#endif
}

// Runs `child` in the new process after a fork (threads and locks do not survive one).
inline void after_fork_in_child(void (*child)()) {
#ifdef _WIN32
  (void)child;
#else
  pthread_atfork(nullptr, nullptr, child);
#endif
}

}  // namespace rl::platform
