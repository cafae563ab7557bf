//! The driver's stand-in in this process, for one test at a time.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use interlock_core_api::OpenOptions;
use interlock_engine::core::loaded::{LoadCoreError, LoadedCore};
use interlock_tests::libraries::{cuda_core, library};
use libloading::Library;
use serde_json::Value;

/// The stand-in, for as long as this lives; nobody else has it meanwhile.
pub struct Driver {
    _alone: MutexGuard<'static, ()>,
    core_library: PathBuf,
    /// Objects left behind and violations, in earlier tests.
    earlier: (u64, usize),
}

/// What the stand-in has written down.
#[derive(Debug)]
pub struct Books(Value);

/// Objects of the driver that are counted.
pub const OBJECTS: [&str; 7] = ["device", "pinned", "registered", "streams", "events", "modules", "contexts"];

impl Books {
    /// A number by its name.
    pub fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// Calls of a function since the steering last changed.
    pub fn calls(&self, function: &str) -> u64 {
        self.0["calls"][function].as_u64().unwrap_or(0)
    }

    /// Objects that were left to a context to free, and what made no sense.
    fn wrong(&self) -> (u64, usize) {
        (self.number("left_behind"), self.0["violations"].as_array().map_or(0, Vec::len))
    }

    /// Objects there are, by kind.
    pub fn objects(&self) -> [u64; OBJECTS.len()] {
        OBJECTS.map(|name| self.number(name))
    }
}

fn stand_in() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    // SAFETY: its constructors are those of Rust's standard library.
    LIBRARY
        .get_or_init(|| unsafe { Library::new(library("test-driver")) }.expect("the stand-in can be loaded"))
}

/// Whether the stand-in has a function of this name.
pub fn has(function: &str) -> bool {
    // SAFETY: only asked whether it is there.
    unsafe { stand_in().get::<*const ()>(function.as_bytes()) }.is_ok()
}

/// Whether a real driver does the work.
pub fn is_real() -> bool {
    std::env::var_os("INTERLOCK_TEST_DRIVER_FORWARD").is_some()
}

impl Driver {
    /// Steered by these words; nothing, with a line that says why, when the CUDA core has not been built.
    pub fn start(words: &str) -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let core_library = cuda_core()?;
        stand_in();
        let mut driver = Self { _alone: alone, core_library, earlier: (0, 0) };
        driver.steer(words);
        driver.earlier = driver.books().wrong();
        Some(driver)
    }

    /// Steers anew.
    pub fn steer(&self, words: &str) {
        let text = CString::new(words).expect("words have no zeros");
        // SAFETY: the function has this type.
        let steer = unsafe {
            stand_in().get::<unsafe extern "C" fn(*const c_char) -> c_int>(b"interlock_test_driver_steer")
        };
        // SAFETY: a C string.
        let status = unsafe { steer.expect("the stand-in has it")(text.as_ptr()) };
        assert_eq!(status, 0, "{words}");
    }

    /// The books as they stand.
    pub fn books(&self) -> Books {
        books()
    }

    /// A core on the stand-in.
    pub fn open(&self, options: &OpenOptions) -> Result<LoadedCore, LoadCoreError> {
        LoadedCore::open("cuda", &self.core_library, options)
    }

    /// All that was made has been given back, by those who made it, and nothing was done that makes no sense.
    #[track_caller]
    pub fn assert_clean(&self) {
        let books = self.books();
        assert_eq!(books.objects(), [0; OBJECTS.len()], "{OBJECTS:?}: {books:?}");
        assert_eq!(books.wrong(), self.earlier, "{books:?}");
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.steer("");
        }
    }
}

/// The books as they stand.
pub fn books() -> Books {
    // SAFETY: the functions have these types.
    let (get, free) = unsafe {
        (
            stand_in().get::<extern "C" fn() -> *mut c_char>(b"interlock_test_driver_books"),
            stand_in().get::<unsafe extern "C" fn(*mut c_char)>(b"interlock_test_driver_free"),
        )
    };
    let text = get.expect("the stand-in has it")();
    // SAFETY: a C string, freed once.
    let value = unsafe {
        let value = serde_json::from_slice(CStr::from_ptr(text).to_bytes());
        free.expect("the stand-in has it")(text);
        value
    };
    Books(value.expect("JSON"))
}
