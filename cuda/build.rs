//! Compiles the kernels to fat binaries, and makes a stub to link the driver library against.
//!
//! | variable | meaning |
//! |---|---|
//! | `CUDA_LIBRARY_PATH` | the toolkit: `bin/nvcc` is under it (`cuda/install-nvcc.sh` makes one) |
//! | `INTERLOCK_CUDA_ARCHS` | architectures to compile for, as in `90` or `80,90`; default [`ARCHS`] |

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every architecture from Ampere on that CUDA 13.0 knows. The last one is embedded as PTX too, for those that
/// come after it.
const ARCHS: &str = "80,86,89,90,100,120";

const KERNELS: [&str; 8] = ["quotient", "ntt", "multiples", "sort", "split", "batched", "g1", "g2"];

fn main() {
    for variable in ["CUDA_LIBRARY_PATH", "INTERLOCK_CUDA_ARCHS"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-changed=driver-symbols.txt");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    make_driver_stub(&out);
    let nvcc = find_nvcc();
    for kernel in KERNELS {
        compile(&nvcc, kernel, &out);
    }
}

fn find_nvcc() -> PathBuf {
    let toolkit = env::var_os("CUDA_LIBRARY_PATH").map(PathBuf::from);
    let candidates = toolkit.iter().map(PathBuf::as_path).chain([Path::new("/usr/local/cuda")]);
    let found = candidates.map(|root| root.join("bin/nvcc")).find(|nvcc| nvcc.is_file());
    found.unwrap_or_else(|| {
        panic!("no nvcc: run cuda/install-nvcc.sh, then `. cuda/toolkit/env`, or set CUDA_LIBRARY_PATH to a CUDA toolkit")
    })
}

/// No `-G` and no line tables, whatever the profile: with either, nvcc makes other code.
fn compile(nvcc: &Path, kernel: &str, out: &Path) {
    let headers = env::var_os("DEP_SPPARK_ROOT").expect("sppark's build script names its headers");
    let archs = env::var("INTERLOCK_CUDA_ARCHS").unwrap_or_else(|_| ARCHS.to_owned());
    let archs: Vec<&str> = archs.split(',').map(str::trim).collect();
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "-O3", "-fatbin", "-I"]).arg(headers);
    for arch in &archs {
        command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
    }
    if let Some(last) = archs.last() {
        command.arg(format!("-gencode=arch=compute_{last},code=compute_{last}"));
    }
    command.arg("-o").arg(out.join(format!("{kernel}.fatbin")));
    command.arg(format!("kernels/{kernel}.cu"));
    run(&mut command);
}

/// `libcuda.so.1` comes with the driver. What is linked against here only has its name and its symbols;
/// every function says "no device" (`CUDA_ERROR_NO_DEVICE`), for unit tests on a machine without a driver.
fn make_driver_stub(out: &Path) {
    let symbols = std::fs::read_to_string("driver-symbols.txt").expect("driver-symbols.txt is in the crate");
    let functions = symbols.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let source: String = functions.map(|name| format!("int {name}(void) {{ return 100; }}\n")).collect();
    let (file, library) = (out.join("driver.c"), out.join("libcuda.so.1"));
    std::fs::write(&file, source).expect("OUT_DIR can be written");
    let mut command = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]).arg(&library).arg(&file);
    run(&mut command);
    let link = out.join("libcuda.so");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink("libcuda.so.1", &link).expect("OUT_DIR can be written");
    println!("cargo:rustc-link-search=native={}", out.display());
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?}: {status}"),
        Err(error) => panic!("{command:?}: {error}"),
    }
}
