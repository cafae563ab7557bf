//! Which system calls a policy's process may make.
//!
//! Three filters, of which the kernel follows the strictest answer:
//!
//! | filter | from | what it does |
//! |---|---|---|
//! | forbidden | before the library is loaded | what no policy does by accident ends the process: other processes, signals to them, programs, sockets, tracing |
//! | loading | before the library is loaded | all but memory, signals of its own, clocks, and reading files fails with EPERM |
//! | serving | after loading, before `create` | reading files fails as well, and so does making memory executable |
//!
//! A constructor of the library runs under the first two and can keep the third from being put on. So what must hold
//! against a hostile library is in the first two and in [`confine`](super::confine).

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters, compiled before they are needed.
pub(super) struct Filters {
    forbidden: BpfProgram,
    loading: BpfProgram,
    serving: BpfProgram,
}

impl Filters {
    /// Compiles the filters for process `id`: the only one that may be sent signals.
    pub fn compile(id: u32) -> Result<Self, String> {
        let fail_others = SeccompAction::Errno(libc::EPERM as u32);
        let serving = running(id, false);
        let loading = running(id, true).and_then(|mut rules| {
            rules.extend(reading()?);
            Ok(rules)
        });
        Ok(Self {
            forbidden: program(forbidden(id), SeccompAction::Allow, SeccompAction::KillProcess)?,
            loading: program(loading, fail_others.clone(), SeccompAction::Allow)?,
            serving: program(serving, fail_others, SeccompAction::Allow)?,
        })
    }

    /// Puts on the filters that hold while the library is loaded.
    pub fn before_loading(&self) -> Result<(), String> {
        apply(&self.loading)?;
        apply(&self.forbidden)
    }

    /// Puts on the filter that holds from then on.
    pub fn before_serving(&self) -> Result<(), String> {
        apply(&self.serving)
    }
}

fn apply(program: &BpfProgram) -> Result<(), String> {
    apply_filter(program).map_err(|error| format!("seccomp filter: {error}"))
}

fn program(
    rules: Result<Rules, BackendError>,
    others: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, String> {
    let compiled = std::env::consts::ARCH.try_into().and_then(|arch| {
        rules.and_then(|rules| SeccompFilter::new(rules, others, listed, arch)).and_then(TryInto::try_into)
    });
    compiled.map_err(|error: BackendError| format!("seccomp filter: {error}"))
}

/// Calls with any arguments.
fn any(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// One condition on an argument, as a rule.
fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<Vec<SeccompRule>, BackendError> {
    let condition = SeccompCondition::new(argument, Dword, operator, value)?;
    Ok(vec![SeccompRule::new(vec![condition])?])
}

/// What ends the process.
fn forbidden(id: u32) -> Result<Rules, BackendError> {
    let mut rules = any(&[
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.extend(any(&[libc::SYS_fork, libc::SYS_vfork]));
    // An abort is a signal to oneself.
    rules.insert(libc::SYS_tgkill, when(0, SeccompCmpOp::Ne, u64::from(id))?);
    Ok(rules)
}

/// What a running policy needs; `executable` memory only while the library is loaded.
fn running(id: u32, executable: bool) -> Result<Rules, BackendError> {
    let mut rules = any(&[
        libc::SYS_futex,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_restart_syscall,
        // Memory.
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        // Signals of its own: handlers of stack overflows, aborts.
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_getpid,
        libc::SYS_getppid,
        libc::SYS_gettid,
        // Clocks and chance.
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_sched_yield,
        libc::SYS_getrandom,
    ]);
    // The standard descriptors are /dev/null: a panic's message goes there.
    let to_null = || when(0, SeccompCmpOp::Le, 2);
    rules.insert(libc::SYS_write, to_null()?);
    rules.insert(libc::SYS_writev, to_null()?);
    rules.insert(libc::SYS_tgkill, when(0, SeccompCmpOp::Eq, u64::from(id))?);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let not_executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        rules.insert(call, if executable { Vec::new() } else { when(2, not_executable, 0)? });
    }
    Ok(rules)
}

/// What the dynamic linker needs besides, and putting on the last filter.
fn reading() -> Result<Rules, BackendError> {
    let mut rules = any(&[
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_lseek,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_readlinkat,
        libc::SYS_faccessat,
        libc::SYS_getcwd,
        libc::SYS_uname,
        libc::SYS_seccomp,
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.extend(any(&[libc::SYS_access, libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink]));
    let writes = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
    let only_reads = |argument| when(argument, SeccompCmpOp::MaskedEq(writes), libc::O_RDONLY as u64);
    rules.insert(libc::SYS_openat, only_reads(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, only_reads(1)?);
    // Its own limits. Those of the engine are the same user's to change.
    rules.insert(libc::SYS_prlimit64, when(0, SeccompCmpOp::Eq, 0)?);
    // `apply_filter` sets it each time; everything else that prctl does stays as it is.
    rules.insert(libc::SYS_prctl, when(0, SeccompCmpOp::Eq, libc::PR_SET_NO_NEW_PRIVS as u64)?);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile() {
        let filters = Filters::compile(std::process::id()).expect("this machine has filters");
        for program in [&filters.forbidden, &filters.loading, &filters.serving] {
            // The kernel takes at most 4096 instructions.
            assert!((10..4_096).contains(&program.len()), "{}", program.len());
        }
    }

    #[test]
    fn serving_allows_nothing_that_loading_does_not() {
        let serving = running(1, false).expect("rules");
        let mut loading = running(1, true).expect("rules");
        loading.extend(reading().expect("rules"));
        assert!(serving.keys().all(|call| loading.contains_key(call)));
        let forbidden = forbidden(1).expect("rules");
        let common: Vec<_> = loading.keys().filter(|call| forbidden.contains_key(call)).collect();
        assert_eq!(common, [&libc::SYS_tgkill], "its own signals, and those to others");
    }
}
