//! The attacks.

use std::hint::black_box;
use std::io::Write;
use std::time::Duration;
use std::{fs, mem, process, ptr, thread};

use super::Options;

/// Commits a deed. Returns whether it went well, for those that end at all.
pub fn commit(deed: &str, options: &Options) -> bool {
    match deed {
        "segfault" => segfault(),
        "abort" => process::abort(),
        "exit" => process::exit(0),
        "exit 7" => process::exit(7),
        "spin" => loop {
            std::hint::spin_loop();
        },
        "sleep" => loop {
            thread::sleep(Duration::from_secs(3_600));
        },
        "doze" => doze(),
        "allocate" => allocate(),
        "overflow" => black_box(overflow(0)) > 0,
        "fork" => fork(),
        "thread" => thread::Builder::new().spawn(|| ()).is_ok(),
        "run" => process::Command::new("/bin/true").spawn().is_ok(),
        // SAFETY: sends a signal.
        "kill" => unsafe { libc::kill(options.target as i32, libc::SIGKILL) == 0 },
        "kill parent" => kill_parent(),
        "limit parent" => limit_parent(),
        "connect" => std::net::TcpListener::bind("127.0.0.1:0").is_ok(),
        "print" => print(),
        "write file" => fs::write(&options.file, "it could").is_ok(),
        "read file" => fs::read(&options.file).is_ok(),
        "read passwd" => read_passwd(),
        "scribble" => scribble(),
        "claim early" => claim(|made| made),
        "claim ahead" => claim(|made| made.wrapping_add(1)),
        "claim back" => claim(|made| made.wrapping_sub(64)),
        _ => false,
    }
}

fn segfault() -> bool {
    // SAFETY: none. That is the point.
    unsafe { ptr::write_volatile(ptr::without_provenance_mut::<u64>(black_box(8)), 1) };
    false
}

/// Answers, but at times too late.
fn doze() -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    thread::sleep(Duration::from_micros(u64::from(now.subsec_nanos()) % 100_000));
    true
}

fn allocate() -> bool {
    let mut held = Vec::new();
    loop {
        held.push(vec![1_u8; 1 << 20]);
        black_box(&held);
    }
}

#[expect(unconditional_recursion, reason = "it overflows the stack")]
fn overflow(depth: u64) -> u64 {
    let frame = black_box([depth; 512]);
    overflow(depth + 1) + frame[black_box(7)]
}

fn fork() -> bool {
    loop {
        // SAFETY: the child does nothing but fork as well.
        if unsafe { libc::fork() } < 0 {
            return false;
        }
    }
}

/// The engine. Not whoever adopts a process, and not what a failed call returns: -1 is everybody.
fn parent() -> Option<i32> {
    // SAFETY: asks for a number.
    let parent = unsafe { libc::getppid() };
    (parent > 1).then_some(parent)
}

fn kill_parent() -> bool {
    // SAFETY: sends a signal.
    parent().is_some_and(|parent| unsafe { libc::kill(parent, libc::SIGKILL) } == 0)
}

/// Takes the engine's right to write a core dump. If that goes well, the process ends, so that a test sees it.
fn limit_parent() -> bool {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let limited = parent().is_some_and(|parent| {
        // SAFETY: the record is there, and no old limit is asked for.
        unsafe { libc::prlimit(parent, libc::RLIMIT_CORE, &raw const none, ptr::null_mut()) == 0 }
    });
    if limited {
        process::exit(97);
    }
    false
}

/// Writes to the standard streams, and to descriptors that an engine might have left open.
fn print() -> bool {
    println!("{{\"rubbish\": true}}");
    eprintln!("rubbish");
    let _ = std::io::stdout().flush();
    // SAFETY: writes from a static.
    let written = (3..256).filter(|fd| unsafe { libc::write(*fd, b"rubbish".as_ptr().cast(), 7) } > 0);
    written.count() > 0
}

/// Reads a file that everybody may read. Finding it open ends the process, so that a test sees it.
fn read_passwd() -> bool {
    if fs::read("/etc/passwd").is_ok() {
        process::exit(99);
    }
    false
}

const PAGE: usize = 4_096;

/// Finds the memory that its process shares with the engine, by a pointer to it on the stack.
fn channel() -> usize {
    const MAGIC: [u8; 8] = *b"ilckchan";
    let local = 0_usize;
    let mut at = ptr::from_ref(black_box(&local)) as usize;
    while is_readable(at) {
        // SAFETY: readable, and any bytes make a number.
        let word = unsafe { ptr::read_volatile(at as *const usize) };
        if word != 0 && word.is_multiple_of(PAGE) && is_readable(word) {
            // SAFETY: as above.
            if unsafe { ptr::read_volatile(word as *const [u8; 8]) } == MAGIC {
                return word;
            }
        }
        at += mem::size_of::<usize>();
    }
    process::exit(98)
}

/// Writes over the channel, but for what it is found by.
fn scribble() -> bool {
    const PAGES: usize = 4;
    let channel = channel();
    // SAFETY: none for the engine. The memory is there, and it is this process's to write.
    unsafe { ptr::write_bytes((channel + 8) as *mut u8, 0xA5, PAGES * PAGE - 8) };
    commit("spin", &Options::default())
}

/// Says how many calls are answered: the one that it is asked right now, with what its slot holds from an earlier one; one more
/// than there are; or fewer than the engine has taken already. The offsets are those of the engine's `Region`.
fn claim(answered: impl Fn(u32) -> u32) -> bool {
    const CALLS_MADE: usize = 64;
    const CALLS_ANSWERED: usize = 128;
    let channel = channel();
    // SAFETY: none for the engine. The memory is there, and it is this process's to read and write.
    unsafe {
        let made = ptr::read_volatile((channel + CALLS_MADE) as *const u32);
        ptr::write_volatile((channel + CALLS_ANSWERED) as *mut u32, answered(made));
    }
    commit("spin", &Options::default())
}

/// Whether eight bytes can be read, by having the kernel read them.
fn is_readable(address: usize) -> bool {
    // SAFETY: the kernel checks the address; the signals blocked are restored at once.
    unsafe {
        let mut old: libc::sigset_t = mem::zeroed();
        let how = libc::SIG_UNBLOCK;
        let eight: libc::size_t = 8;
        let call = libc::SYS_rt_sigprocmask;
        let read = libc::syscall(call, how, address, &raw mut old, eight) == 0;
        if read {
            libc::syscall(call, libc::SIG_SETMASK, &raw const old, ptr::null::<u8>(), eight);
        }
        read
    }
}
