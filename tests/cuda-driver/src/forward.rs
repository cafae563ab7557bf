//! A real driver to pass calls on to.

use std::ffi::OsString;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The variable that names it.
const VARIABLE: &str = "INTERLOCK_TEST_DRIVER_FORWARD";

static REAL: LazyLock<Option<Library>> = LazyLock::new(|| {
    let file = std::env::var_os(VARIABLE).filter(|_| !IS_LAST.load(Ordering::SeqCst));
    file.map(open)
});

/// Another stand-in passes its calls on to this one.
static IS_LAST: AtomicBool = AtomicBool::new(false);

/// Keeps a stand-in that takes the real driver's place, in a test of the stand-in, from passing calls on to itself.
#[unsafe(no_mangle)]
pub extern "C" fn interlock_test_driver_is_last() {
    IS_LAST.store(true, Ordering::SeqCst);
}

fn open(file: OsString) -> Library {
    // SAFETY: the driver's constructors may run anywhere.
    let opened = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) };
    let library = opened.unwrap_or_else(|error| {
        // Going on without would test something else than was asked for.
        eprintln!("test driver: {VARIABLE}={}: {error}", file.display());
        std::process::exit(101)
    });
    // SAFETY: the function has this type, where there is one.
    if let Ok(is_last) = unsafe { library.get::<extern "C" fn()>(b"interlock_test_driver_is_last") } {
        is_last();
    }
    library
}

/// The real driver's function of this name, when there is a real driver.
///
/// # Safety
/// `F` is the type of a pointer to it.
pub unsafe fn find<F: Copy>(name: &str) -> Option<F> {
    let real = REAL.as_ref()?;
    // SAFETY: the caller's; the library is never closed.
    match unsafe { real.get::<F>(name.as_bytes()) } {
        Ok(function) => Some(*function),
        Err(error) => {
            eprintln!("test driver: the real driver has no {name}: {error}");
            std::process::exit(101)
        }
    }
}
