//! Where the server is and which key opens it: options, then the environment, then the instance's directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use terminal::{Exit, Failure, Outcome};

use crate::access::{Origin, read_key};
use crate::place::{self, ServerFile, is_instance};
use crate::request::Client;
use crate::trust::Trust;

/// Options of every command that talks to a server.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Connection {
    /// The server, as http://127.0.0.1:7420 or https://NAME:PORT [env: KIST_SERVER]
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection")]
    pub server: Option<String>,
    /// The file with the key [env: KIST_KEY_FILE]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub key_file: Option<PathBuf>,
    /// An instance on this machine: takes the URL from DIR/run/server.json and, without --key-file, the key
    /// from DIR/admin.key or DIR/run/admin-key [env: KIST_INSTANCE] [default: ./kist-data]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Connection")]
    pub instance: Option<PathBuf>,
    /// Certificates.
    #[command(flatten)]
    pub trust: Trust,
}

impl Connection {
    /// The instance's directory that is named or usual.
    pub fn instance_directory(&self) -> PathBuf {
        self.instance
            .clone()
            .or_else(|| env::var_os("KIST_INSTANCE").filter(|v| !v.is_empty()).map(PathBuf::from))
            .unwrap_or_else(|| PathBuf::from(place::DEFAULT_DIRECTORY))
    }

    /// A client for the server.
    pub fn client(&self) -> Outcome<Client> {
        let url = self.url()?;
        let (key, file) = self.key()?;
        let server_file = match self.named_url() {
            Some(_) => None,
            None => Some(self.instance_directory().join(place::SERVER_FILE)),
        };
        Ok(Client::new(&url, &key, &self.trust)?.read_from(Origin { key_file: Some(file), server_file }))
    }

    /// A client for the server of the instance, with the key kept there; the environment is not looked at.
    pub fn own_client(&self) -> Outcome<Client> {
        let directory = self.instance_directory();
        let key_file = Some(directory.join(place::ADMIN_KEY_FILE));
        let own = Connection {
            server: Some(self.server_of(&directory)?),
            key_file,
            instance: None,
            trust: self.trust.clone(),
        };
        own.client()
    }

    fn url(&self) -> Outcome<String> {
        match self.named_url() {
            Some(url) => Ok(url),
            None => self.server_of(&self.instance_directory()),
        }
    }

    /// The URL that an option or the environment names.
    pub fn named_url(&self) -> Option<String> {
        let variable = || env::var("KIST_SERVER").ok().filter(|v| !v.is_empty());
        self.server.clone().or_else(|| if self.instance.is_none() { variable() } else { None })
    }

    fn server_of(&self, directory: &Path) -> Outcome<String> {
        let file = directory.join(place::SERVER_FILE);
        let text = fs::read_to_string(&file).map_err(|_| no_server(directory))?;
        let server: ServerFile = serde_json::from_str(&text)
            .map_err(|error| Failure::internal(format!("{}: {error}", file.display())))?;
        Ok(server.url)
    }

    fn key(&self) -> Outcome<(String, PathBuf)> {
        let variable = || env::var_os("KIST_KEY_FILE").filter(|v| !v.is_empty()).map(PathBuf::from);
        // The second one is made by a running server for whoever may read its instance. It is shown to that
        // server only, not to one that was named by its address.
        let files: &[&str] = match self.named_url() {
            Some(_) => &[place::ADMIN_KEY_FILE],
            None => &[place::ADMIN_KEY_FILE, place::RUN_KEY_FILE],
        };
        let usual =
            || files.iter().map(|name| self.instance_directory().join(name)).find(|file| file.exists());
        let Some(file) = self.key_file.clone().or_else(variable).or_else(usual) else {
            let message = "no key: name the file that holds it with --key-file FILE or KIST_KEY_FILE";
            return Err(Failure::new(Exit::NotAuthorised, message));
        };
        Ok((read_key(&file)?, file))
    }
}

fn no_server(directory: &Path) -> Failure {
    if is_instance(directory) {
        let message = format!("no server runs on {0}: start it with: kist serve {0}", directory.display());
        return Failure::new(Exit::Unreachable, message);
    }
    let message = format!(
        "which server? {} is no instance of Kist; name one with --server URL (KIST_SERVER) or --instance DIR \
         (KIST_INSTANCE), or make one: kist init DIR",
        directory.display()
    );
    Failure::new(Exit::Unreachable, message)
}
