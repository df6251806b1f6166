//! TLS for scrapes, by rustls.

use holdup_model::Problem;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What the files of a certificate and a key may have, bytes.
const FILE_BYTES: u64 = 1 << 20;

/// Reads the certificate chain and its key, both PEM.
///
/// # Errors
/// When they cannot be read, or do not belong together.
pub(super) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Problem> {
    let problem = |path: &Path, why: String| Problem::usage(path.display().to_string(), why);
    let read = |path: &Path| holdup_files::read_input(path, FILE_BYTES).map_err(|e| problem(path, e.to_string()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<_, _>>()
        .map_err(|e| problem(certificate, format!("no certificate in PEM: {e}")))?;
    let private =
        PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|e| problem(key, format!("no private key in PEM: {e}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|e| problem(certificate, format!("it cannot be used with {}: {e}", key.display())))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
