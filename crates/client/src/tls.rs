//! TLS settings: which server certificates are accepted, and our own certificate. One configuration serves every
//! transport.

use crate::Error;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls_platform_verifier::Verifier;
use std::fmt;
use std::sync::Arc;

/// The TLS settings of a client.
#[derive(Clone, Default)]
pub struct Tls {
    /// Accept any certificate. Only for tests by a person who was warned.
    pub insecure: bool,
    /// Certificates to trust in addition to the machine's own, as PEM.
    pub ca: Option<Vec<u8>>,
    /// Our certificate chain and its private key, as PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("insecure", &self.insecure)
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}

impl Tls {
    /// Builds the configuration; `present` decides whether our certificate is sent.
    pub(crate) fn config(&self, present: bool) -> Result<ClientConfig, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::Usage(format!("TLS cannot be set up: {e}")))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        match &self.identity {
            Some((chain, key)) if present => {
                let chain = certificates(chain, "client certificate")?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| Error::Usage("the client key is not a PEM private key".into()))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|e| Error::Usage(format!("the client certificate and key do not fit: {e}")))
            }
            _ => Ok(builder.with_no_client_auth()),
        }
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        if self.insecure {
            return Ok(Arc::new(AcceptAnyCertificate(provider)));
        }
        self.strict_verifier(provider)
    }

    /// The verifier that checks certificates, even if `insecure` is set.
    pub(crate) fn strict_verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let roots = match &self.ca {
            Some(pem) => certificates(pem, "CA certificate")?,
            None => Vec::new(),
        };
        Verifier::new_with_extra_roots(roots, provider)
            .map(|v| Arc::new(v) as Arc<dyn ServerCertVerifier>)
            .map_err(|e| Error::Usage(format!("no certificates to trust: {e}")))
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(list) if !list.is_empty() => Ok(list),
        _ => Err(Error::Usage(format!("the {what} is not PEM"))),
    }
}

/// Accepts any certificate, but still checks that the server holds its private key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
