// What code in a sandbox can do to an interpreter that is being born beside it. `birth_race HOW MILLISECONDS` keeps at every pid that comes next and counts what it
// was told, one line for each "what errno count"; 0 is success. Pids are given in order, so the next few are known.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { kKinds = 32, kErrors = 134, kAhead = 6 };
static const char* names[kKinds];
static long counts[kKinds][kErrors];

static void count(int kind, const char* name, long result) {
  names[kind] = name;
  counts[kind][result >= 0 ? 0 : errno]++;
}

static void open_one(int kind, int pid, const char* name, int flags) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  int fd = open(path, flags | O_CLOEXEC);
  // Some of these open for everybody and refuse to be read.
  if (fd >= 0 && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECTORY)) {
    char byte;
    count(kind, name, read(fd, &byte, 1) == 1 ? 0 : (errno = errno ? errno : EIO, -1));
  } else {
    count(kind, name, fd);
  }
  if (fd >= 0) close(fd);
}

static void link_one(int kind, int pid, const char* name) {
  char path[64], target[256];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  count(kind, name, readlink(path, target, sizeof target));
}

static void look(int pid) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void*)0x400000, 1};
  int handle = syscall(SYS_pidfd_open, pid, 0);
  if (handle < 0) return;
  open_one(0, pid, "mem", O_RDWR);
  open_one(1, pid, "maps", O_RDONLY);
  open_one(2, pid, "environ", O_RDONLY);
  open_one(3, pid, "fd", O_RDONLY | O_DIRECTORY);
  link_one(4, pid, "root");
  link_one(5, pid, "cwd");
  link_one(6, pid, "exe");
  link_one(7, pid, "ns/user");
  link_one(8, pid, "fd/3");
  open_one(9, pid, "auxv", O_RDONLY);
  open_one(10, pid, "map_files", O_RDONLY | O_DIRECTORY);
  open_one(11, pid, "root/etc", O_RDONLY | O_DIRECTORY);
  open_one(12, pid, "fd/3", O_RDWR);
  count(13, "process_vm_readv", syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0));
  count(14, "process_vm_writev", syscall(SYS_process_vm_writev, pid, &here, 1, &there, 1, 0));
  count(15, "ptrace", syscall(SYS_ptrace, 0x4206, pid, 0, 0));
  count(16, "kcmp", syscall(SYS_kcmp, getpid(), pid, 0, 0, 0));
  count(17, "pidfd_getfd", syscall(SYS_pidfd_getfd, handle, 3, 0));
  count(18, "setns", syscall(SYS_setns, handle, 0x10000000));
  open_one(19, pid, "oom_score_adj", O_WRONLY);
  open_one(20, pid, "clear_refs", O_WRONLY);
  open_one(21, pid, "uid_map", O_WRONLY);
  open_one(22, pid, "stack", O_RDONLY);
  open_one(23, pid, "syscall", O_RDONLY);
  close(handle);
}

static void hurt(int pid, const char* how) {
  if (!strcmp(how, "stop")) count(0, "SIGSTOP", kill(pid, SIGSTOP));
  if (!strcmp(how, "kill")) count(0, "SIGKILL", kill(pid, SIGKILL));
  if (!strcmp(how, "limit")) {
    const struct rlimit none = {0, 0};
    count(0, "prlimit", syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, &none, 0));
  }
}

static long now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

// The highest pid there is, not of our doing.
static int newest(void) {
  int found = 0;
  DIR* all = opendir("/proc");
  for (struct dirent* entry; all && (entry = readdir(all));)
    if (atoi(entry->d_name) > found) found = atoi(entry->d_name);
  if (all) closedir(all);
  return found;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "look";
  const long until = now() + (argc > 2 ? atol(argv[2]) : 1000);
  int last = newest(), own = getpid();
  printf("ready\n");
  fflush(stdout);
  while (now() < until) {
    for (int pid = last + 1; pid <= last + kAhead; ++pid) {
      if (!strcmp(how, "look"))
        look(pid);
      else
        hurt(pid, how);
    }
    // Those that came are old after a moment in which they were tried again and again.
    static long turns;
    if (++turns % 2000 == 0) {
      int top = newest();
      if (!strcmp(how, "look") && top > last) last = top > own ? top : own;
    }
  }
  for (int kind = 0; kind < kKinds; ++kind)
    for (int error = 0; error < kErrors; ++error)
      if (names[kind] && counts[kind][error] && error != ESRCH && error != ENOENT) printf("%s %d %ld\n", names[kind], error, counts[kind][error]);
  return 0;
}
