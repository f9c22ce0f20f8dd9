//! Runs `cargo xtask tidy` over this repository, so that `cargo test` is enough to know that it is tidy.

#[test]
fn the_repository_is_tidy() {
    let root = xtask::workspace_root().expect("the tests run inside the workspace");
    let report = xtask::tidy(&root);
    for note in &report.notes {
        println!("note: {note}");
    }
    assert!(report.errors.is_empty(), "\n{}\n", report.errors.join("\n"));
}
