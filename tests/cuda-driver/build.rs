//! Names the library as the driver names itself, so that a library that needs the driver takes this one once it is loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
}
