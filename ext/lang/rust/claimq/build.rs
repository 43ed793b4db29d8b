//! Compiles the amalgamation, to be linked with the SQLite of libsqlite3-sys.

fn main() {
    println!("cargo:rerun-if-changed=c");
    cc::Build::new()
        .file("c/claimq.c")
        .define("SQLITE_CORE", None)
        .warnings(false)
        .compile("claimq");
}
