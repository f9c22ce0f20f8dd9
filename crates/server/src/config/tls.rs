//! `[server.tls]`: the certificate files of this server, and the client certificates it accepts; or `tls =
//! "terminated"` in `[server]`, where a proxy terminates TLS.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where TLS is terminated.
#[derive(Debug, Clone)]
pub enum ServerTls {
    /// By a proxy that forwards requests in plain HTTP: `tls = "terminated"`.
    Terminated,
    /// By this server itself: `[server.tls]`.
    Own(TlsConfig),
}

/// The value for [`ServerTls::Terminated`].
const TERMINATED: &str = "terminated";

impl JsonSchema for ServerTls {
    fn schema_name() -> Cow<'static, str> {
        "ServerTls".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let own = generator.subschema_for::<TlsConfig>();
        json_schema!({
            "description": "\"terminated\" where a proxy speaks TLS for this server, or a table with cert and key.",
            "anyOf": [{"type": "string", "const": TERMINATED}, own]
        })
    }
}

impl<'de> Deserialize<'de> for ServerTls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TlsVisitor;
        impl<'de> Visitor<'de> for TlsVisitor {
            type Value = ServerTls;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"terminated\", or a table [server.tls] with cert and key")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ServerTls, E> {
                // The text is not repeated, because it may be a pasted key.
                if text == TERMINATED { Ok(ServerTls::Terminated) } else { Err(E::custom(EXPECTED)) }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ServerTls, A::Error> {
                TlsConfig::deserialize(MapAccessDeserializer::new(map)).map(ServerTls::Own)
            }
        }
        deserializer.deserialize_any(TlsVisitor)
    }
}

/// The error text for any other value of `tls`.
const EXPECTED: &str = "tls is \"terminated\" where a proxy speaks TLS for this server; where this server does, write a table \
                     [server.tls] with cert and key";

/// `[server.tls]`: the certificate files.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate with its chain, in PEM.
    pub cert: PemFile,
    /// Its private key, in PEM without a passphrase.
    pub key: PemFile,
    /// The authorities of accepted client certificates, in PEM. Without it no client is asked for a certificate.
    pub client_ca: Option<PemFile>,
    /// Whether a client must present a certificate.
    pub client_auth: Option<ClientAuth>,
    /// The oldest accepted version of TLS.
    #[serde(default)]
    pub min_version: TlsVersion,
}

/// A file, written `file:PATH`. Relative paths start at the directory of the configuration.
///
/// Any other text is refused, but not by the parser: its error shows the refused line, and that line may be the key
/// itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemFile(Option<PathBuf>);

impl PemFile {
    /// The path as written; `None` for any other text.
    pub fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}

impl JsonSchema for PemFile {
    fn schema_name() -> Cow<'static, str> {
        "PemFile".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^file:.+", "description": "A PEM file, written file:PATH; relative paths start at the directory of this file."})
    }
}

impl<'de> Deserialize<'de> for PemFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(text.strip_prefix("file:").filter(|path| !path.is_empty()).map(PathBuf::from)))
    }
}

/// Whether a client must present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// A certificate is optional; one that is presented must be valid.
    #[default]
    Optional,
    /// A connection without a certificate is refused.
    Required,
}

/// The oldest accepted version of TLS. With either value, 1.3 is used if both sides have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2 and 1.3 are accepted.
    #[default]
    #[serde(rename = "1.2")]
    V12,
    /// Only TLS 1.3 is accepted.
    #[serde(rename = "1.3")]
    V13,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<TlsConfig, String> {
        toml::from_str(lines).map_err(|e| e.to_string())
    }

    #[test]
    fn files_are_named_and_the_rest_has_defaults() {
        let config = read("cert = \"file:a.pem\"\nkey = \"file:/etc/a.key\"").unwrap();
        assert_eq!(config.cert.path(), Some(Path::new("a.pem")));
        assert_eq!(config.key.path(), Some(Path::new("/etc/a.key")));
        assert_eq!((config.client_auth, config.min_version), (None, TlsVersion::V12));
        let config = read(
            "cert = \"file:a\"\nkey = \"file:b\"\nclient_ca = \"file:c\"\nclient_auth = \"required\"\nmin_version = \"1.3\"",
        );
        let config = config.unwrap();
        assert_eq!((config.client_auth, config.min_version), (Some(ClientAuth::Required), TlsVersion::V13));
    }

    #[test]
    fn what_is_no_file_is_not_repeated() {
        for wrong in ["-----BEGIN PRIVATE KEY-----", "file:", "env:KEY", ""] {
            let config = read(&format!("cert = \"file:a\"\nkey = \"{wrong}\"")).unwrap();
            assert_eq!(config.key.path(), None, "{wrong}");
            assert!(wrong.is_empty() || !format!("{config:?}").contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_proxy_may_speak_tls_instead() {
        let read = |text: &str| crate::config::Config::read(text).map_err(|e| e.to_string());
        let terminated = read("[server]\ntls = \"terminated\"").unwrap().server;
        assert!(terminated.is_tls_terminated() && terminated.own_tls().is_none());
        let own = read("[server.tls]\ncert = \"file:a\"\nkey = \"file:b\"").unwrap().server;
        assert!(!own.is_tls_terminated() && own.own_tls().is_some());
        let wrong = read("[server]\ntls = \"hunter2\"").unwrap_err();
        assert!(wrong.contains("line 2") && wrong.contains("\"terminated\"") && !wrong.contains("hunter2"), "{wrong}");
        assert!(read("[server]\ntls = true").unwrap_err().contains("a table [server.tls]"));
        let misspelt = read("[server.tls]\ncert = \"file:a\"\nkey = \"file:b\"\nmin_versoin = \"1.3\"").unwrap_err();
        assert!(misspelt.contains("line 4") && misspelt.contains("did you mean `min_version`"), "{misspelt}");
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        assert!(read("cert = \"file:a\"").unwrap_err().contains("key"));
        assert!(read("cert = \"file:a\"\nkey = \"file:b\"\nmin_version = \"1.1\"").is_err());
        assert!(read("cert = \"file:a\"\nkey = \"file:b\"\ncyphers = \"all\"").unwrap_err().contains("cyphers"));
    }
}
