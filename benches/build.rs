//! Where the linker finds the CUDA runtime, which supraseal-c2 is linked to: in the toolkit that `CUDA_LIBRARY_PATH`
//! names. Without the feature `supraseal` there is nothing to do.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CUDA_LIBRARY_PATH");
    if env::var_os("CARGO_FEATURE_SUPRASEAL").is_none() {
        return;
    }
    if let Some(toolkit) = env::var_os("CUDA_LIBRARY_PATH").map(PathBuf::from) {
        println!("cargo:rustc-link-search=native={}", toolkit.join("lib64").display());
    }
}
