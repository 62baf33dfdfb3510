//! What in this crate stands on candle's own behaviour.

/// The candle of which `src/graph.rs` was last found to be needed.
const CANDLE: &str = "0.11.1";

#[test]
fn a_new_candle_is_looked_at() {
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let lock = std::fs::read_to_string(lock).unwrap();
    let version =
        lock.split("name = \"candle-core\"\nversion = \"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(
        version, CANDLE,
        "does candle's store of gradients still add the first gradient into fresh zeros (its pull requests #3822 and \
         #3578)? If not, `src/graph.rs` can go, and `backward` with it; else write the new version here. The rows of \
         docs/candle.md want a look too"
    );
}
