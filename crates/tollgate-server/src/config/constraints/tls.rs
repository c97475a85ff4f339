//! Rules between the settings of TLS and of the listeners.

use super::{Rules, Settings};

impl Rules<'_> {
    pub(super) fn tls(&mut self, settings: &Settings) {
        let (tls, operators) = (&settings.tls, &settings.operators);
        for section in ["tls", "operators", "cluster"] {
            let [cert, key] = ["cert_file", "key_file"].map(|name| format!("{section}.{name}"));
            match (self.values.is_given(&cert), self.values.is_given(&key)) {
                (true, false) => self.refuse(&cert, format!("needs {key}, its private key")),
                (false, true) => self.refuse(&key, format!("needs {cert}, its certificate")),
                (true, true) | (false, false) => {}
            }
        }
        // Whoever asks for certificates must not be left with a port that asks for none.
        let without_tls =
            "needs a certificate of the listener: without TLS nobody is asked for one";
        if tls.client_ca_file.is_some() && !tls.is_on() {
            self.refuse("tls.client_ca_file", without_tls);
        }
        let has_own = operators.cert_file.is_some() || tls.is_on();
        if operators.client_ca_file.is_some() && !has_own {
            self.refuse("operators.client_ca_file", without_tls);
        }
        let (listen, of_operators) = (settings.node.listen, operators.listen);
        if of_operators.is_some_and(|address| address == listen && address.port() != 0) {
            let reason = "is the address of the API: operators need another one";
            self.refuse_pair("operators.listen", "listen", reason.to_owned());
        }
        let is_plain = |url: &str| url.starts_with("http://");
        let advertised = settings.node.advertise_url.as_ref();
        if tls.is_on() && advertised.is_some_and(|url| is_plain(url.as_str())) {
            let reason = "is plain HTTP, but the API speaks TLS: other nodes reach it only through a \
                          proxy at that URL";
            self.warn("advertise_url", reason);
        }
    }
}
