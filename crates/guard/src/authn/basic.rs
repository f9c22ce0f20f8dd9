//! User name and password (RFC 7617), over TLS only, because the header contains the password.

use super::{Principal, Scheme, same_secret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sabir_proto::Secret;

/// The longest header that is parsed, in bytes.
const HEADER_BYTES_MAX: usize = 4096;

/// The transport of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// TLS, terminated here or at a trusted proxy.
    Tls,
    /// Any other transport.
    Plain,
}

/// A user from the configuration.
#[derive(Debug, Clone)]
pub struct BasicUser {
    pub name: String,
    pub password: Secret,
}

/// Why no user is authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordFault {
    /// The password was sent over an unencrypted connection.
    #[error("passwords are taken over TLS only")]
    Plain,
    /// Not base64 of a name, a colon and a password.
    #[error("malformed credentials")]
    Malformed,
    /// No such user, or a wrong password; the two are not told apart.
    #[error("wrong user name or password")]
    Wrong,
}

impl PasswordFault {
    /// A short, stable name for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Plain => "basic_plain",
            Self::Malformed => "basic_malformed",
            Self::Wrong => "basic_wrong",
        }
    }
}

/// The user that an `Authorization: Basic` header names; `None` for a header of another scheme.
///
/// Every configured user is compared, so that a wrong password takes as long as a wrong name.
pub fn verify(header: &str, channel: Channel, users: &[BasicUser]) -> Option<Result<Principal, PasswordFault>> {
    let encoded = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))?.1;
    Some(verify_encoded(encoded.trim(), channel, users))
}

fn verify_encoded(encoded: &str, channel: Channel, users: &[BasicUser]) -> Result<Principal, PasswordFault> {
    if channel == Channel::Plain {
        return Err(PasswordFault::Plain);
    }
    if encoded.len() > HEADER_BYTES_MAX {
        return Err(PasswordFault::Malformed);
    }
    let bytes = STANDARD.decode(encoded).map_err(|_| PasswordFault::Malformed)?;
    let text = String::from_utf8(bytes).map_err(|_| PasswordFault::Malformed)?;
    let (name, password) = text.split_once(':').ok_or(PasswordFault::Malformed)?;
    if name.is_empty() || text.contains(char::is_control) {
        return Err(PasswordFault::Malformed);
    }
    let found = users.iter().fold(None, |found, user| {
        let named = same_secret(user.name.as_bytes(), name.as_bytes());
        let knows = same_secret(user.password.expose().as_bytes(), password.as_bytes());
        if named & knows & !user.password.is_empty() { Some(user) } else { found }
    });
    found.map(|user| Principal::new(Scheme::Basic, user.name.as_str())).ok_or(PasswordFault::Wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Vec<BasicUser> {
        let user = |name: &str, password: &str| BasicUser { name: name.to_owned(), password: Secret::new(password) };
        vec![user("Aladdin", "open sesame"), user("ana", "a:b:ü"), user("blank", "")]
    }

    fn check(text: &str, expected: Result<&str, PasswordFault>) {
        let ours = verify(&format!("Basic {}", STANDARD.encode(text)), Channel::Tls, &users()).unwrap();
        assert_eq!(ours.map(|who| who.to_string()), expected.map(|name| format!("basic:{name}")), "{text:?}");
    }

    #[test]
    fn name_and_password_must_both_be_right_and_belong_together() {
        check("Aladdin:open sesame", Ok("Aladdin"));
        check("ana:a:b:ü", Ok("ana"));
        check("ana:open sesame", Err(PasswordFault::Wrong));
        check("aladdin:open sesame", Err(PasswordFault::Wrong));
        check("Aladdin:open sesam", Err(PasswordFault::Wrong));
        check("Aladdin:", Err(PasswordFault::Wrong));
        check("blank:", Err(PasswordFault::Wrong));
        check("nobody:open sesame", Err(PasswordFault::Wrong));
        check("Aladdin", Err(PasswordFault::Malformed));
        check(":open sesame", Err(PasswordFault::Malformed));
        check("Ala\0ddin:x", Err(PasswordFault::Malformed));
    }

    #[test]
    fn a_password_over_an_open_line_is_refused_even_when_it_is_right() {
        let header = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
        assert_eq!(verify(header, Channel::Plain, &users()), Some(Err(PasswordFault::Plain)));
        assert!(verify(&header.replace("Basic", "bAsIc"), Channel::Tls, &users()).unwrap().is_ok());
    }

    #[test]
    fn headers_of_other_schemes_are_left_to_others() {
        assert_eq!(verify("Bearer abc", Channel::Tls, &users()), None);
        assert_eq!(verify("Basic", Channel::Tls, &users()), None);
        for odd in ["Basic ", "Basic !!", "Basic /w==", &format!("Basic {}", "A".repeat(HEADER_BYTES_MAX + 4))] {
            assert_eq!(verify(odd, Channel::Tls, &users()), Some(Err(PasswordFault::Malformed)), "{odd}");
        }
        assert!(!format!("{:?}", users()).contains("sesame"));
    }
}
