#![cfg(unix)]

use super::*;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

fn key(origin: &str) -> TokenKey {
    TokenKey { origin: origin.to_owned(), scheme: "../../etc/passwd".to_owned(), client_id: "me".to_owned() }
}

fn stored(origin: &str, access: &str, expires: u64) -> StoredToken {
    let token = Token {
        access: Secret::new(access),
        refresh: Some(Secret::new(format!("refresh-{access}"))),
        expires: Some(expires),
        scopes: vec!["read".to_owned()],
    };
    let token_url = "https://as.example/token".to_owned();
    StoredToken { key: key(origin), token, flow: "deviceCode".to_owned(), token_url, refresh_url: None }
}

fn store() -> (TempDir, TokenStore) {
    let home = TempDir::new().unwrap();
    let store = TokenStore::new(home.path().join("sabir").join("tokens"));
    (home, store)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

const A: &str = "https://a.example";
const B: &str = "https://b.example";

#[test]
fn what_is_saved_is_loaded_and_nobody_else_can_read_it() {
    let (_home, store) = store();
    assert_eq!(store.load(&key(A)).unwrap(), None);
    let path = store.save(&stored(A, "one", 9)).unwrap();
    assert_eq!(path, store.path(&key(A)));
    assert_eq!((mode(&path), mode(&store.dir)), (0o600, 0o700));
    store.save(&stored(A, "two", 9)).unwrap();
    store.save(&stored(B, "three", 9)).unwrap();
    assert_eq!(store.load(&key(A)).unwrap(), Some(stored(A, "two", 9)));
    assert_eq!(store.load(&key(B)).unwrap(), Some(stored(B, "three", 9)));
    assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn names_are_hashes_that_tell_every_key_from_every_other() {
    let (_home, store) = store();
    let path = store.path(&key(A));
    assert_eq!(path.parent(), Some(store.dir.as_path()));
    let name = path.file_stem().unwrap().to_str().unwrap();
    assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    let split = |origin: &str, scheme: &str| TokenKey {
        origin: origin.to_owned(),
        scheme: scheme.to_owned(),
        client_id: String::new(),
    };
    assert_ne!(file_stem(&split("ab", "c")), file_stem(&split("a", "bc")));
    assert_ne!(file_stem(&split("a\",\"b", "c")), file_stem(&split("a", "b\",\"c")));
}

#[test]
fn a_file_open_to_others_is_refused_and_a_login_mends_it() {
    let (_home, store) = store();
    let path = store.save(&stored(A, "one", 9)).unwrap();
    for open in [0o640, 0o604, 0o660, 0o610] {
        fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
        let error = store.load(&key(A)).unwrap_err();
        assert!(matches!(&error, TokenStoreError::Exposed { mode, .. } if *mode == open), "{error}");
        assert!(error.to_string().contains("chmod"), "{error}");
    }
    store.save(&stored(A, "two", 9)).unwrap();
    assert!(store.load(&key(A)).unwrap().is_some());
    // Any user who can write to the directory could place a file there.
    fs::set_permissions(&store.dir, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(store.load(&key(A)), Err(TokenStoreError::Exposed { .. })));
    store.save(&stored(A, "three", 9)).unwrap();
    assert_eq!(mode(&store.dir), 0o700);
    assert!(store.load(&key(A)).unwrap().is_some());
}

#[test]
fn a_damaged_file_is_an_error_that_quotes_no_secret() {
    let (_home, store) = store();
    let path = store.save(&stored(A, "one", 9)).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let huge = " ".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
    for text in [
        "",
        "{",
        "[]",
        "\0\u{1b}[31m",
        r#"{"format":"s3cr3t"}"#,
        &good.replace("\"format\": 1", "\"format\": 2"),
        &good.replace("a.example", "b.example"),
        &good.replace("\"expires\": 9", "\"expires\": \"s3cr3t\""),
        &good[..good.len() / 2],
        &huge,
    ] {
        fs::write(&path, text).unwrap();
        let error = store.load(&key(A)).unwrap_err();
        assert!(matches!(error, TokenStoreError::Damaged { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(store.load(&key(A)), Err(TokenStoreError::Damaged { .. })));
}

#[test]
fn a_list_names_the_good_and_the_bad() {
    let (_home, store) = store();
    assert!(store.list().unwrap().is_empty());
    store.save(&stored(A, "one", 9)).unwrap();
    store.save(&stored(B, "two", 9)).unwrap();
    fs::write(store.dir.join("stranger.json"), "{}").unwrap();
    fs::write(store.dir.join("notes.txt"), "not ours").unwrap();
    let all = store.list().unwrap();
    let good: Vec<_> = all.iter().flatten().map(|stored| stored.key.origin.as_str()).collect();
    assert!(good.len() == 2 && good.contains(&A) && good.contains(&B), "{good:?}");
    assert_eq!(all.iter().filter(|one| one.is_err()).count(), 1);
}

#[test]
fn a_logout_leaves_nothing_of_that_token_and_all_of_the_others() {
    let (_home, store) = store();
    assert!(!store.remove(&key(A)).unwrap());
    store.save(&stored(A, "one", 9)).unwrap();
    store.save(&stored(B, "two", 9)).unwrap();
    // The leftover of a crash between writing and renaming.
    fs::write(store.dir.join(format!(".{}.0000.tmp", file_stem(&key(A)))), "one").unwrap();
    assert!(store.remove(&key(A)).unwrap());
    assert_eq!(store.load(&key(A)).unwrap(), None);
    assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 1);
    let damaged = store.path(&key(B));
    fs::write(&damaged, "{").unwrap();
    assert!(store.remove(&key(B)).unwrap(), "also what cannot be read can be removed");
}

#[test]
fn a_reader_never_sees_half_a_document() {
    let (_home, store) = store();
    store.save(&stored(A, "start", 9)).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let long = writer.to_string().repeat(2000 * (writer + 1));
                (0..50).for_each(|_| drop(store.save(&stored(A, &long, 9)).unwrap()));
            });
        }
        for _ in 0..4 {
            scope.spawn(|| (0..200).for_each(|_| assert!(store.load(&key(A)).unwrap().is_some())));
        }
    });
    assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_find_a_token_stale_one_renews_it() {
    let (_home, store) = store();
    store.save(&stored(A, "old", 1000)).unwrap();
    let renewals = AtomicU32::new(0);
    let one = async || {
        // Each renewal uses its own store, like another process.
        let store = TokenStore::new(store.dir.clone());
        let renew = async |old: StoredToken| {
            assert_eq!(old.token.access.expose(), "old");
            renewals.fetch_add(1, Ordering::SeqCst);
            // Long enough for the others to come to the lock.
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok::<_, ()>(stored(A, "new", 9000).token)
        };
        store.usable_token(&key(A), 990, Duration::from_secs(20), renew).await.unwrap().unwrap().stored.token.access
    };
    let all = futures_util::future::join_all((0..8).map(|_| one())).await;
    assert!(all.iter().all(|access| access.expose() == "new"));
    assert_eq!(renewals.load(Ordering::SeqCst), 1);
    assert_eq!(store.load(&key(A)).unwrap(), Some(stored(A, "new", 9000)));
}

#[tokio::test]
async fn a_fresh_token_is_not_renewed_and_a_missing_one_not_invented() {
    let (_home, store) = store();
    let never = async |_| -> Result<Token, ()> { panic!("nothing to renew") };
    assert!(store.usable_token(&key(A), 0, Duration::ZERO, never).await.unwrap().is_none());
    store.save(&stored(A, "one", 1000)).unwrap();
    let fresh = store.usable_token(&key(A), 939, Duration::ZERO, never).await.unwrap().unwrap();
    assert!(fresh.stored.token.access.expose() == "one" && fresh.unsaved.is_none());
}

#[tokio::test]
async fn a_failed_renewal_changes_nothing_and_a_lock_that_is_held_is_said() {
    let (_home, store) = store();
    store.save(&stored(A, "one", 1000)).unwrap();
    let refused = store.usable_token(&key(A), 1000, Duration::ZERO, async |_| Err("revoked")).await;
    assert!(matches!(refused, Err(UsableTokenError::Renewal("revoked"))));
    assert_eq!(store.load(&key(A)).unwrap(), Some(stored(A, "one", 1000)));
    let held = store.lock(&key(A), Duration::ZERO).await.unwrap();
    let renew = async |_| Ok::<_, ()>(stored(A, "two", 9000).token);
    let busy = store.usable_token(&key(A), 1000, Duration::from_millis(60), renew).await;
    assert!(matches!(busy, Err(UsableTokenError::Store(TokenStoreError::Busy { .. }))));
    drop(held);
    let renewed = store.usable_token(&key(A), 1000, Duration::ZERO, renew).await.unwrap().unwrap();
    assert_eq!(renewed.stored.token.access.expose(), "two");
    assert_eq!(renewed.stored.renewal_url(), "https://as.example/token");
}
