//! TLS as libpq uses it (sslmode, sslrootcert, sslcert, sslkey), by rustls.

use crate::Error;
use crate::conninfo::Pairs;
use crate::surroundings::Surroundings;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;
use x509_cert::der::Decode;

/// The largest file of certificates that is read, bytes.
const MOST: u64 = 8 << 20;

/// `sslmode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// No TLS.
    #[default]
    Disable,
    /// Without TLS; with it where the server refuses that.
    Allow,
    /// With TLS where the server has it.
    Prefer,
    /// With TLS.
    Require,
    /// The server's certificate is signed by a root that is known.
    VerifyCa,
    /// And it is for the name of the host.
    VerifyFull,
}

impl Mode {
    const WORDS: [(&'static str, Mode); 6] = [
        ("disable", Mode::Disable),
        ("allow", Mode::Allow),
        ("prefer", Mode::Prefer),
        ("require", Mode::Require),
        ("verify-ca", Mode::VerifyCa),
        ("verify-full", Mode::VerifyFull),
    ];

    fn word(self) -> &'static str {
        Mode::WORDS.iter().find(|(_, mode)| *mode == self).map_or("", |(word, _)| word)
    }
}

/// How TLS is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) mode: Mode,
    /// A file of roots, or `system`.
    root: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    only_13: bool,
}

/// The word for the roots of the system.
const SYSTEM: &str = "system";

/// The files that libpq takes where none are named, in `~/.postgresql`.
const DEFAULTS: [(&str, &str); 3] =
    [("sslrootcert", "root.crt"), ("sslcert", "postgresql.crt"), ("sslkey", "postgresql.key")];

fn wrong(what: &str, why: impl std::fmt::Display) -> Error {
    Error::Config(format!("{what}: {why}"))
}

/// Adds the files of `~/.postgresql` that exist, and makes all paths absolute, so that programs that run elsewhere find them.
pub(crate) fn complete(pairs: &mut Pairs, around: &Surroundings) -> Result<(), Error> {
    let is_system = pairs.get("sslrootcert").is_some_and(|root| root == SYSTEM);
    let default = if is_system { Mode::VerifyFull } else { Mode::Prefer };
    pairs.entry("sslmode".to_owned()).or_insert_with(|| default.word().to_owned());
    if pairs.get("sslmode").is_some_and(|mode| mode == "disable") {
        return Ok(());
    }
    for (key, file) in DEFAULTS {
        let default = around.home().map(|home| home.join(".postgresql").join(file)).filter(|path| path.exists());
        if let (false, Some(path)) = (pairs.contains_key(key), default) {
            pairs.insert(key.to_owned(), path.display().to_string());
        }
        if let Some(path) = pairs.get_mut(key).filter(|path| *path != SYSTEM && !path.is_empty()) {
            *path = std::path::absolute(&*path).map_err(Error::System)?.display().to_string();
        }
    }
    Ok(())
}

impl Tls {
    /// Takes the keys of TLS out of a connection string.
    pub(crate) fn take(pairs: &mut Pairs) -> Result<Self, Error> {
        let mut take = |key: &str| pairs.remove(key).filter(|value| !value.is_empty());
        let word = take("sslmode");
        let root = take("sslrootcert");
        let mode = match &word {
            Some(word) => {
                Mode::WORDS.iter().find(|(known, _)| known == word).map(|(_, mode)| *mode).ok_or_else(|| {
                    wrong(
                        "sslmode",
                        format!("`{word}` is none of disable, allow, prefer, require, verify-ca and verify-full"),
                    )
                })?
            }
            None if root.as_deref() == Some(SYSTEM) => Mode::VerifyFull,
            None => Mode::Prefer,
        };
        if root.as_deref() == Some(SYSTEM) && mode != Mode::VerifyFull {
            return Err(wrong("sslrootcert=system", format!("it takes sslmode=verify-full, not {}", mode.word())));
        }
        for (key, value) in [
            ("sslcrl", take("sslcrl")),
            ("sslcrldir", take("sslcrldir")),
            ("sslpassword", take("sslpassword")),
            ("requirepeer", take("requirepeer")),
        ] {
            if value.is_some() {
                return Err(wrong(key, "holdup does not have it, and would be less strict without"));
            }
        }
        take("ssl_max_protocol_version");
        let only_13 = match take("ssl_min_protocol_version").as_deref() {
            None | Some("TLSv1" | "TLSv1.1" | "TLSv1.2") => false,
            Some("TLSv1.3") => true,
            Some(other) => return Err(wrong("ssl_min_protocol_version", format!("`{other}` is no version of TLS"))),
        };
        Ok(Tls { mode, root, certificate: take("sslcert"), key: take("sslkey"), only_13 })
    }

    /// The variables of libpq that say the same.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("PGSSLMODE", Some(self.mode.word().to_owned())),
            ("PGSSLROOTCERT", self.root.clone()),
            ("PGSSLCERT", self.certificate.clone()),
            ("PGSSLKEY", self.key.clone()),
            ("PGSSLMINPROTOCOLVERSION", self.only_13.then(|| "TLSv1.3".to_owned())),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// What makes connections of TLS.
    ///
    /// # Errors
    /// When a file cannot be read, holds no certificate or key, or others can read the key.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions: &[&rustls::SupportedProtocolVersion] =
            if self.only_13 { &[&rustls::version::TLS13] } else { rustls::DEFAULT_VERSIONS };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|e| wrong("TLS", e))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(self.verifier(provider)?));
        let config = match self.own_certificate()? {
            Some((chain, key)) => {
                builder.with_client_auth_cert(chain, key).map_err(|e| wrong("sslcert and sslkey", e))?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Verifier, Error> {
        // As libpq: a file of roots that is there is used by the weaker modes too.
        let is_verified = self.mode >= Mode::VerifyCa || self.mode == Mode::Require && self.root.is_some();
        let verifier = Verifier { roots: None, pinned: Vec::new(), is_name_verified: false, provider };
        if !is_verified {
            return Ok(verifier);
        }
        let certificates = self.roots()?;
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if added == 0 {
            return Err(wrong("sslrootcert", "no certificate in it can be used"));
        }
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), verifier.provider.clone())
            .build()
            .map_err(|e| wrong("sslrootcert", e))?;
        let pinned = if self.root.as_deref() == Some(SYSTEM) { Vec::new() } else { certificates };
        Ok(Verifier { roots: Some(webpki), pinned, is_name_verified: self.mode == Mode::VerifyFull, ..verifier })
    }

    fn roots(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        match self.root.as_deref() {
            None => Err(wrong(
                &format!("sslmode={}", self.mode.word()),
                "there are no roots: name a file with sslrootcert=FILE, or sslrootcert=system",
            )),
            Some(SYSTEM) => {
                let found = rustls_native_certs::load_native_certs();
                if found.certs.is_empty() {
                    let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
                    return Err(wrong("the roots of the system", why));
                }
                Ok(found.certs)
            }
            Some(file) => certificates("sslrootcert", file),
        }
    }

    fn own_certificate(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, Error> {
        let Some(certificate) = &self.certificate else { return Ok(None) };
        let Some(key) = &self.key else {
            return Err(wrong("sslcert", "its private key is not named: give sslkey=FILE"));
        };
        let chain = certificates("sslcert", certificate)?;
        let what = format!("sslkey {key}");
        let file = holdup_files::open_input(Path::new(key)).map_err(|e| wrong(&what, e))?;
        let metadata = file.metadata().map_err(|e| wrong(&what, e))?;
        // As libpq: a key of root may be read by its group.
        let (mode, limit) = (metadata.mode(), if metadata.uid() == 0 { 0o027 } else { 0o077 });
        if mode & limit != 0 {
            return Err(wrong(&what, "it has group or world access; permissions should be u=rw (0600) or less"));
        }
        let bytes = holdup_files::read_bounded(file, MOST).map_err(|e| wrong(&what, e))?;
        let is_encrypted = String::from_utf8_lossy(&bytes).contains("ENCRYPTED");
        let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| {
            if is_encrypted {
                wrong(&what, "it is encrypted, which holdup cannot read")
            } else {
                wrong(&what, format!("no private key is in it ({e})"))
            }
        })?;
        Ok(Some((chain, key)))
    }
}

fn certificates(key: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let what = format!("{key} {file}");
    let bytes = holdup_files::read_input(Path::new(file), MOST).map_err(|e| wrong(&what, e))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong(&what, "no certificate is in it")),
        Err(e) => Err(wrong(&what, e)),
    }
}

/// Verifies the server's certificate as far as the mode asks for.
#[derive(Debug)]
struct Verifier {
    /// `None`: any certificate will do.
    roots: Option<Arc<WebPkiServerVerifier>>,
    /// The certificates of the file of roots: a server may show one of them, as one that signed itself does.
    pinned: Vec<CertificateDer<'static>>,
    is_name_verified: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(roots) = &self.roots else { return Ok(ServerCertVerified::assertion()) };
        if self.pinned.iter().any(|known| known == end_entity) {
            in_time(end_entity, now)?;
            if self.is_name_verified {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match roots.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain is verified before the name.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.is_name_verified => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a certificate is valid at this time. The library verifies that for chains only.
fn in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let bad = |why| Err(rustls::Error::InvalidCertificate(why));
    let Ok(parsed) = x509_cert::Certificate::from_der(certificate) else { return bad(CertificateError::BadEncoding) };
    let validity = parsed.tbs_certificate.validity;
    if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
        return bad(CertificateError::NotValidYet);
    }
    if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
        return bad(CertificateError::Expired);
    }
    Ok(())
}
