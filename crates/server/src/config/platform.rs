//! Where we run, told by what a platform leaves in the environment.
//!
//! These are the signs that agent-native goes by, so that a deployment which it takes for production is production here
//! as well.

use super::Config;

impl Config {
    /// Whether this server is in production: it says so, or its platform does.
    pub const fn is_production(&self) -> bool {
        self.server.production || self.platform.is_some()
    }

    /// Whether anybody on the way could read along. In production that is refused, except on the machine itself, where
    /// there is no way to speak of.
    pub(crate) fn refuse_plain_http(&self) -> Result<(), String> {
        let listen = self.server.listen;
        if !self.is_production() || self.server.tls.is_some() || listen.ip().is_loopback() {
            return Ok(());
        }
        let why = match self.platform {
            Some(variable) if !self.server.production => format!("{variable} is set"),
            _ => "it was asked for".to_owned(),
        };
        Err(format!(
            "this is production ({why}), and {listen} would be plain HTTP that others can read; give [server.tls] a cert \
             and a key, or listen on 127.0.0.1 behind a proxy that speaks HTTPS"
        ))
    }
}

/// The variable that tells of a platform of production. `None`: nothing does, which is how development looks.
pub(super) fn detect(variables: &[(String, String)]) -> Option<&'static str> {
    let value = |name: &str| variables.iter().find(|(n, _)| n == name).map(|(_, value)| &**value);
    let is_set = |name: &str| value(name).is_some_and(|value| !value.is_empty());
    let is_local = value("NETLIFY_LOCAL") == Some("true");
    let signs = [
        ("NODE_ENV", value("NODE_ENV") == Some("production")),
        ("NETLIFY", value("NETLIFY") == Some("true") && !is_local),
        ("AWS_LAMBDA_FUNCTION_NAME", is_set("AWS_LAMBDA_FUNCTION_NAME") && !is_local),
        ("CF_PAGES", value("CF_PAGES") == Some("1")),
        ("VERCEL", is_set("VERCEL")),
        ("VERCEL_ENV", is_set("VERCEL_ENV")),
        ("RENDER", is_set("RENDER")),
        ("FLY_APP_NAME", is_set("FLY_APP_NAME")),
        ("K_SERVICE", is_set("K_SERVICE")),
    ];
    signs.into_iter().find(|(_, there)| *there).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Option<&str>) {
        let variables: Vec<_> = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        assert_eq!(detect(&variables), expected, "{variables:?}");
    }

    #[test]
    fn in_production_nobody_can_read_along() {
        let check = |text: &str, platform| Config { platform, ..Config::read(text).unwrap() }.refuse_plain_http();
        let open = "[server]\nlisten = \"0.0.0.0:4000\"\n";
        assert_eq!(check(open, None), Ok(()));
        assert!(check(open, Some("RENDER")).unwrap_err().contains("RENDER is set"));
        let asked = format!("{open}production = true\n");
        let refusal = check(&asked, None).unwrap_err();
        assert!(["asked for", "[server.tls]", "127.0.0.1", "0.0.0.0:4000"].iter().all(|word| refusal.contains(word)));
        assert_eq!(check(&format!("{asked}[server.tls]\ncert = \"file:a\"\nkey = \"file:b\""), None), Ok(()));
        for loopback in ["127.0.0.1:1", "127.8.0.1:1", "[::1]:1"] {
            assert_eq!(check(&format!("[server]\nproduction = true\nlisten = \"{loopback}\""), None), Ok(()));
        }
    }

    #[test]
    fn each_platform_is_known_by_its_own_sign() {
        check(&[("NODE_ENV", "production")], Some("NODE_ENV"));
        check(&[("NETLIFY", "true")], Some("NETLIFY"));
        check(&[("AWS_LAMBDA_FUNCTION_NAME", "f")], Some("AWS_LAMBDA_FUNCTION_NAME"));
        check(&[("CF_PAGES", "1")], Some("CF_PAGES"));
        check(&[("VERCEL", "1")], Some("VERCEL"));
        check(&[("VERCEL_ENV", "preview")], Some("VERCEL_ENV"));
        check(&[("RENDER", "true")], Some("RENDER"));
        check(&[("FLY_APP_NAME", "app")], Some("FLY_APP_NAME"));
        check(&[("K_SERVICE", "svc")], Some("K_SERVICE"));
    }

    #[test]
    fn a_desk_is_no_platform() {
        check(&[], None);
        check(&[("NODE_ENV", "development"), ("NETLIFY", "false"), ("CF_PAGES", "0"), ("VERCEL", "")], None);
        check(&[("NETLIFY", "true"), ("NETLIFY_LOCAL", "true"), ("AWS_LAMBDA_FUNCTION_NAME", "f")], None);
        check(&[("NETLIFY", "true"), ("NETLIFY_LOCAL", "true"), ("RENDER", "1")], Some("RENDER"));
    }
}
