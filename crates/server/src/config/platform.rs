//! Detects the hosting platform from the variables that it sets.
//!
//! The variables are those that agent-native checks, so that a deployment is in production here if it is there. A
//! platform that hosts the process also shows which port its proxy calls, that this proxy terminates TLS, and which
//! header names the client. All of that only fills settings that the configuration leaves open.

use super::Config;
use super::network::IpNetwork;
use super::setting_sources::SettingSources;
use http::HeaderName;
use toml::{Table, Value};

/// The port that the proxy of a hosting platform calls.
const PORT: &str = "PORT";

/// A platform, or another sign of production.
#[derive(Debug)]
pub struct Platform {
    /// The variable by which it is recognised.
    pub variable: &'static str,
    is_detected: fn(&Variables<'_>) -> bool,
    hosting: Option<Hosting>,
}

/// The settings of a platform that hosts this process.
#[derive(Debug)]
struct Hosting {
    /// The header in which its proxy names the client, if it is not `X-Forwarded-For`. The proxy overwrites it.
    client_header: Option<HeaderName>,
    /// The public URL of the process, if the platform sets it.
    public_url: fn(&Variables<'_>) -> Option<String>,
}

/// The variables of the environment.
struct Variables<'a>(&'a [(String, String)]);

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    fn is_local_netlify(&self) -> bool {
        self.get("NETLIFY_LOCAL") == Some("true")
    }
}

/// A platform whose proxy writes `X-Forwarded-For`, and which does not set a public URL.
const PLAIN: Hosting = Hosting { client_header: None, public_url: |_| None };

/// All platforms that are recognised; the first match is used.
static PLATFORMS: [Platform; 9] = [
    Platform {
        variable: "NETLIFY",
        is_detected: |all| all.get("NETLIFY") == Some("true") && !all.is_local_netlify(),
        hosting: Some(PLAIN),
    },
    Platform {
        variable: "AWS_LAMBDA_FUNCTION_NAME",
        is_detected: |all| all.get("AWS_LAMBDA_FUNCTION_NAME").is_some() && !all.is_local_netlify(),
        hosting: Some(PLAIN),
    },
    Platform {
        variable: "CF_PAGES",
        is_detected: |all| all.get("CF_PAGES") == Some("1"),
        hosting: Some(Hosting { client_header: Some(HeaderName::from_static("cf-connecting-ip")), ..PLAIN }),
    },
    Platform { variable: "VERCEL", is_detected: |all| all.get("VERCEL").is_some(), hosting: Some(PLAIN) },
    Platform { variable: "VERCEL_ENV", is_detected: |all| all.get("VERCEL_ENV").is_some(), hosting: Some(PLAIN) },
    Platform {
        variable: "RENDER",
        is_detected: |all| all.get("RENDER").is_some(),
        // Cloudflare stands before Render's own proxy, so the last address of X-Forwarded-For is Cloudflare's.
        hosting: Some(Hosting {
            client_header: Some(HeaderName::from_static("cf-connecting-ip")),
            public_url: |all| all.get("RENDER_EXTERNAL_URL").map(str::to_owned),
        }),
    },
    Platform {
        variable: "FLY_APP_NAME",
        is_detected: |all| all.get("FLY_APP_NAME").is_some(),
        // The last address of X-Forwarded-For is that of the app itself.
        hosting: Some(Hosting {
            client_header: Some(HeaderName::from_static("fly-client-ip")),
            public_url: |all| all.get("FLY_APP_NAME").map(|app| format!("https://{app}.fly.dev")),
        }),
    },
    // Cloud Run replaces X-Forwarded-For with the address that called it.
    Platform { variable: "K_SERVICE", is_detected: |all| all.get("K_SERVICE").is_some(), hosting: Some(PLAIN) },
    // Last, because images of hosting platforms set it too. It shows production, and nothing about a proxy: it can be
    // set on any machine.
    Platform { variable: "NODE_ENV", is_detected: |all| all.get("NODE_ENV") == Some("production"), hosting: None },
];

impl Config {
    /// Whether this server is in production, by its configuration or by its platform.
    pub const fn is_production(&self) -> bool {
        self.server.production || self.platform.is_some()
    }

    /// The settings of the platform that hosts this process.
    fn hosting(&self) -> Option<&'static Hosting> {
        self.platform.and_then(|platform| platform.hosting.as_ref())
    }

    /// The proxies whose headers are trusted. A hosting platform does not publish the addresses of its proxies, but
    /// they call from its internal network; a request from a public address did not pass them.
    pub(crate) fn trusted_proxies(&self) -> Vec<IpNetwork> {
        match &*self.server.proxies {
            [] if self.server.is_tls_terminated() && self.hosting().is_some() => IpNetwork::internal(),
            named => named.to_vec(),
        }
    }

    /// The header in which the platform's proxy names the client. Configured proxies use their own headers.
    pub(crate) fn client_header(&self) -> Option<HeaderName> {
        let hosting = self.hosting().filter(|_| self.server.is_tls_terminated() && self.server.proxies.is_empty());
        hosting.and_then(|hosting| hosting.client_header.clone())
    }

    /// Refuses plain HTTP in production, because others on the way could read it. It is allowed on the loopback
    /// address, and behind a proxy that is known to terminate TLS for this server.
    pub(crate) fn refuse_plain_http(&self) -> Result<(), String> {
        let server = &self.server;
        if server.is_tls_terminated() && server.proxies.is_empty() && self.hosting().is_none() {
            return Err(
                "server.tls = \"terminated\" says that a proxy speaks TLS for this server, and nothing says which; \
                        name its address in server.proxies, such as proxies = [\"10.0.0.0/8\"]"
                    .into(),
            );
        }
        if !self.is_production() || server.tls.is_some() || server.listen.ip().is_loopback() {
            return Ok(());
        }
        let why = match self.platform {
            Some(platform) if !server.production => format!("{} is set", platform.variable),
            _ => "it was asked for".to_owned(),
        };
        Err(format!(
            "this is production ({why}), and {} would be plain HTTP that others can read; give [server.tls] a cert and a \
             key, listen on 127.0.0.1 behind a proxy that speaks HTTPS, or write tls = \"terminated\" and proxies in \
             [server] where that proxy is on another machine",
            server.listen
        ))
    }
}

/// The production platform that the environment shows; `None` in development.
pub(super) fn detect(variables: &[(String, String)]) -> Option<&'static Platform> {
    let variables = Variables(variables);
    PLATFORMS.iter().find(|platform| (platform.is_detected)(&variables))
}

/// Fills settings that the configuration leaves open with those of a hosting platform: the port, TLS, and the public
/// URL. An error names the variable that cannot be used, and why.
pub(super) fn apply(
    table: &mut Table,
    variables: &[(String, String)],
    origins: &mut SettingSources,
) -> Result<(), (&'static str, String)> {
    let Some(platform) = detect(variables) else { return Ok(()) };
    let Some(hosting) = &platform.hosting else { return Ok(()) };
    let variables = Variables(variables);
    let server = super::aliases::section(table, &["server"]).map_err(|problem| (platform.variable, problem))?;
    if let Some(text) = variables.get(PORT) {
        let port = text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let port =
            port.ok_or_else(|| (PORT, format!("{text:?} is no port; the platform sets a number such as 8080")))?;
        origins.fill(server, "server.listen", Value::String(format!("0.0.0.0:{port}")), PORT);
    }
    if !server.contains_key("tls") {
        origins.fill(server, "server.tls", Value::String("terminated".into()), platform.variable);
    }
    if let Some(url) = (hosting.public_url)(&variables) {
        let here = if platform.variable == "RENDER" { "RENDER_EXTERNAL_URL" } else { platform.variable };
        origins.fill(server, "server.public_url", Value::String(url), here);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    fn check(variables: &[(&str, &str)], expected: Option<&str>) {
        let found = detect(&named(variables)).map(|platform| platform.variable);
        assert_eq!(found, expected, "{variables:?}");
    }

    /// The configuration that results from these variables.
    fn hosted(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        Config::parse(text, "sabir.toml", named(variables).into_iter()).map_err(|error| error.to_string())
    }

    #[test]
    fn in_production_nobody_can_read_along() {
        let check = |text: &str, platform| Config { platform, ..Config::read(text).unwrap() }.refuse_plain_http();
        let node = detect(&named(&[("NODE_ENV", "production")]));
        let open = "[server]\nlisten = \"0.0.0.0:4000\"\n";
        assert_eq!(check(open, None), Ok(()));
        assert!(check(open, node).unwrap_err().contains("NODE_ENV is set"));
        let asked = format!("{open}production = true\n");
        let refusal = check(&asked, None).unwrap_err();
        assert!(["asked for", "[server.tls]", "127.0.0.1", "0.0.0.0:4000"].iter().all(|word| refusal.contains(word)));
        assert_eq!(check(&format!("{asked}[server.tls]\ncert = \"file:a\"\nkey = \"file:b\""), None), Ok(()));
        for loopback in ["127.0.0.1:1", "127.8.0.1:1", "[::1]:1"] {
            assert_eq!(check(&format!("[server]\nproduction = true\nlisten = \"{loopback}\""), None), Ok(()));
        }
    }

    #[test]
    fn a_proxy_that_terminates_tls_is_named_or_known_by_its_platform() {
        let asked = "[server]\nlisten = \"0.0.0.0:4000\"\nproduction = true\ntls = \"terminated\"\n";
        assert!(Config::read(asked).unwrap().refuse_plain_http().unwrap_err().contains("server.proxies"));
        let named = Config::read(&format!("{asked}proxies = [\"10.1.0.0/16\"]")).unwrap();
        assert_eq!((named.refuse_plain_http(), named.trusted_proxies().len()), (Ok(()), 1));
        for (variable, header) in
            [("K_SERVICE", None), ("RENDER", Some("cf-connecting-ip")), ("FLY_APP_NAME", Some("fly-client-ip"))]
        {
            let config = hosted("", &[(variable, "x"), ("PORT", "8080")]).unwrap();
            assert_eq!(config.refuse_plain_http(), Ok(()), "{variable}");
            assert_eq!(config.client_header().map(|header| header.to_string()).as_deref(), header);
            let believed = |address: &str| {
                config.trusted_proxies().iter().any(|network| network.contains(&address.parse().unwrap()))
            };
            for inside in ["10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.8.1", "127.0.0.1", "100.64.0.1", "fd00::1"]
            {
                assert!(believed(inside), "{inside}");
            }
            for outside in ["192.0.2.1", "8.8.8.8", "2001:db8::1", "172.32.0.1"] {
                assert!(!believed(outside), "{outside}");
            }
        }
        let node = hosted("", &[("NODE_ENV", "production"), ("PORT", "8080")]).unwrap();
        assert!(!node.server.is_tls_terminated() && node.trusted_proxies().is_empty());
        assert_eq!(node.server.listen.port(), 4000, "it is no platform that sets a port");
    }

    #[test]
    fn a_platform_fills_what_is_left_open_and_nothing_else() {
        let render = [("RENDER", "true"), ("PORT", "10000"), ("RENDER_EXTERNAL_URL", "https://a.onrender.com")];
        let config = hosted("", &render).unwrap();
        assert_eq!(config.server.listen.to_string(), "0.0.0.0:10000");
        assert_eq!(config.server.public_url.as_deref(), Some("https://a.onrender.com"));
        assert!(config.server.is_tls_terminated() && config.is_production());
        let notes = config.sources.notes().join("\n");
        for words in ["server.listen = \"0.0.0.0:10000\"", "PORT", "RENDER_EXTERNAL_URL", "server.tls = \"terminated\""]
        {
            assert!(notes.contains(words), "{words} is not in {notes}");
        }
        let file = "[server]\nlisten = \"127.0.0.1:1\"\npublic_url = \"https://own.example\"\n[server.tls]\n\
                    cert = \"file:a\"\nkey = \"file:b\"";
        let config = hosted(file, &render).unwrap();
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:1");
        assert_eq!(config.server.public_url.as_deref(), Some("https://own.example"));
        assert!(!config.server.is_tls_terminated() && config.server.own_tls().is_some());
        let notes = config.sources.notes().join("\n");
        assert!(notes.contains("PORT") && notes.contains("sabir.toml"), "what is not used is told: {notes}");
        let variable = [("SABIR_SERVER__LISTEN", "127.0.0.1:2"), ("K_SERVICE", "x"), ("PORT", "8080")];
        assert_eq!(hosted("", &variable).unwrap().server.listen.port(), 2);
        assert_eq!(
            hosted("", &[("FLY_APP_NAME", "shop")]).unwrap().server.public_url.as_deref(),
            Some("https://shop.fly.dev")
        );
        for wrong in ["http", "0", "70000", "-1"] {
            let refusal = hosted("", &[("K_SERVICE", "x"), ("PORT", wrong)]).unwrap_err();
            assert!(refusal.starts_with("PORT: ") && refusal.contains(wrong), "{refusal}");
            assert!(hosted("", &[("PORT", wrong)]).is_ok(), "elsewhere the variable belongs to another program");
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
        check(&[("NODE_ENV", "production"), ("K_SERVICE", "svc")], Some("K_SERVICE"));
    }

    #[test]
    fn a_desk_is_no_platform() {
        check(&[], None);
        check(&[("NODE_ENV", "development"), ("NETLIFY", "false"), ("CF_PAGES", "0"), ("VERCEL", "")], None);
        check(&[("NETLIFY", "true"), ("NETLIFY_LOCAL", "true"), ("AWS_LAMBDA_FUNCTION_NAME", "f")], None);
        check(&[("NETLIFY", "true"), ("NETLIFY_LOCAL", "true"), ("RENDER", "1")], Some("RENDER"));
    }
}
