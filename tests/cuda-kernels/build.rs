//! Compiles kernels of the CUDA core as C++, with stand-ins for what CUDA and sppark give them.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let kernels = Path::new("../../cuda/kernels");
    println!("cargo:rerun-if-changed={}", kernels.display());
    println!("cargo:rerun-if-changed=stand-in");
    // Quotes find what lies beside the file first, so that a stand-in for one of the kernels' own headers takes its place.
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("kernels");
    std::fs::create_dir_all(&out).expect("OUT_DIR can be written");
    for directory in [kernels, Path::new("stand-in/kernels")] {
        for entry in directory.read_dir().unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
            let path = entry.expect("a directory entry").path();
            let source =
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            // Shared memory is static here, which an external array cannot be as well.
            let source = source.replace("extern __shared__", "extern");
            std::fs::write(out.join(path.file_name().expect("a file")), source)
                .expect("OUT_DIR can be written");
        }
    }
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").opt_level(2).include(&out).include("stand-in");
    // CUDA's pragmas, headers of which a kernel uses a part, and field elements that are words as well.
    build
        .flag("-Wno-unknown-pragmas")
        .flag("-Wno-unused-function")
        .flag("-fno-strict-aliasing")
        .flag("-Wno-psabi");
    let files = ["batched", "ntt", "sort", "split"].map(|name| format!("stand-in/{name}.cpp"));
    build.files(files).compile("interlock_test_kernels");
}
