#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = interlock_tests::fuzz::read_wtns(bytes);
});
