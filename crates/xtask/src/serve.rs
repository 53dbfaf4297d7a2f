//! A small file server for this machine: the demo's page with the headers a public host should send.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::http::{Part, Request, file, media_type, part};

/// A longer head is no browser's.
const HEAD_LIMIT: u64 = 32 * 1024;

/// An idle connection is let go after this.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder, ready to be served.
pub struct Server {
    listener: TcpListener,
    root: PathBuf,
    headers: Vec<(String, String)>,
}

impl Server {
    /// Listens on 127.0.0.1 at `port`, or at any free one if that is taken.
    /// Every answer carries `headers`.
    ///
    /// # Errors
    /// When the folder does not exist or no port is free.
    pub fn open(root: &Path, port: u16, headers: Vec<(String, String)>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .context("no free port on 127.0.0.1")?;
        let root = root
            .canonicalize()
            .with_context(|| format!("{} does not exist", root.display()))?;
        Ok(Self {
            listener,
            root,
            headers,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Serves until the program ends.
    pub fn serve(self) {
        let server = Arc::new(self);
        for stream in server.listener.incoming().flatten() {
            let server = Arc::clone(&server);
            // A visitor who hangs up is no event.
            std::thread::spawn(move || server.connection(&stream).ok());
        }
    }

    /// Answers the requests of one connection until it is closed.
    fn connection(&self, stream: &TcpStream) -> Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        let mut writer = BufWriter::with_capacity(64 * 1024, stream);
        loop {
            let mut head = String::new();
            let mut limited = (&mut reader).take(HEAD_LIMIT);
            loop {
                if limited.read_line(&mut head)? == 0 {
                    return Ok(());
                }
                if head.ends_with("\r\n\r\n") || head.ends_with("\n\n") {
                    break;
                }
            }
            let keep = self.answer(&mut writer, &head)?;
            writer.flush()?;
            if !keep {
                return Ok(());
            }
        }
    }

    /// Writes the answer to one request; returns whether the connection may go on.
    fn answer(&self, out: &mut impl Write, head: &str) -> Result<bool> {
        let Some(request) = Request::parse(head) else {
            return self.refuse(out, "400 Bad Request", false);
        };
        let keep = request.header("connection").is_none_or(|c| c != "close");
        if request.method != "GET" && request.method != "HEAD" {
            // Its body, if any, is not read, so the connection can't go on.
            return self.refuse(out, "405 Method Not Allowed", false);
        }
        let Some(path) = file(&self.root, &request.target) else {
            return self.refuse(out, "404 Not Found", keep);
        };
        let mut content = File::open(&path)?;
        let length = content.metadata()?.len();
        let (status, range) = match part(request.header("range"), length) {
            Part::Whole => ("200 OK", 0..length),
            Part::Bytes(range) => ("206 Partial Content", range),
            Part::Unsatisfiable => {
                self.head(out, "416 Range Not Satisfiable", 0)?;
                write!(out, "Content-Range: bytes */{length}\r\n\r\n")?;
                return Ok(keep);
            }
        };
        let count = range.end - range.start;
        self.head(out, status, count)?;
        write!(out, "Content-Type: {}\r\n", media_type(&path))?;
        if status.starts_with("206") {
            let last = range.end - 1;
            write!(
                out,
                "Content-Range: bytes {}-{last}/{length}\r\n",
                range.start
            )?;
        }
        out.write_all(b"\r\n")?;
        if request.method == "GET" {
            content.seek(SeekFrom::Start(range.start))?;
            std::io::copy(&mut content.take(count), out)?;
        }
        Ok(keep)
    }

    fn refuse(&self, out: &mut impl Write, status: &str, keep: bool) -> Result<bool> {
        self.head(out, status, status.len() as u64)?;
        if !keep {
            out.write_all(b"Connection: close\r\n")?;
        }
        write!(out, "Content-Type: text/plain\r\n\r\n{status}")?;
        Ok(keep)
    }

    fn head(&self, out: &mut impl Write, status: &str, length: u64) -> Result<()> {
        write!(out, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n")?;
        // Always the build that is there now.
        out.write_all(b"Accept-Ranges: bytes\r\nCache-Control: no-cache\r\n")?;
        for (name, value) in &self.headers {
            write!(out, "{name}: {value}\r\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn files_ranges_and_refusals_over_a_real_socket() {
        let root = std::env::temp_dir().join(format!("conclave-serve-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("index.html"), "<p>one</p>").unwrap();
        let headers = vec![("X-Policy".to_owned(), "strict".to_owned())];
        let first = Server::open(&root, 0, headers.clone()).unwrap();
        let address = first.address().unwrap();
        let second = Server::open(&root, address.port(), headers).unwrap();
        assert_ne!(second.address().unwrap().port(), address.port());
        std::thread::spawn(move || first.serve());

        let whole = ask(address, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.ends_with("\r\n\r\n<p>one</p>"));
        assert!(whole.contains("X-Policy: strict\r\n") && whole.contains("text/html"));
        assert!(whole.contains("Content-Length: 10\r\n"));

        // Two on one connection: a HEAD without a body, then a part.
        let both = ask(
            address,
            "HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nRange: bytes=3-5\r\nConnection: close\r\n\r\n",
        );
        assert!(both.contains("HTTP/1.1 206 Partial Content\r\n") && both.ends_with("\r\n\r\none"));
        assert!(both.contains("Content-Range: bytes 3-5/10\r\n"));
        assert!(!both.contains("<p>"));

        let close = "HTTP/1.1\r\nConnection: close\r\n\r\n";
        assert!(ask(address, &format!("GET /../x {close}")).starts_with("HTTP/1.1 404"));
        assert!(ask(address, &format!("POST / {close}")).starts_with("HTTP/1.1 405"));
        assert!(ask(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
        let beyond = ask(
            address,
            "GET / HTTP/1.1\r\nRange: bytes=10-\r\nConnection: close\r\n\r\n",
        );
        assert!(beyond.starts_with("HTTP/1.1 416") && beyond.contains("bytes */10"));
        std::fs::remove_dir_all(root).unwrap();
    }
}
