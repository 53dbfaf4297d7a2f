//! A proxy of a real server that can delay requests, or refuse them as busy or forbidden.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Treatment of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    Pass,
    /// Forwards it after this delay.
    Wait(Duration),
    /// Answers with this status so many times, then forwards.
    Status(u16, usize),
}

pub struct Proxy {
    pub url: String,
    pub mode: Arc<Mutex<Mode>>,
    denied: Arc<Mutex<Option<&'static str>>>,
}

impl Proxy {
    /// A proxy of the server at `url`.
    pub fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let there = url
            .trim_start_matches("http://")
            .trim_end_matches("/v1")
            .to_owned();
        let mode = Arc::new(Mutex::new(Mode::Pass));
        let denied = Arc::new(Mutex::new(None));
        let (modes, paths) = (Arc::clone(&mode), Arc::clone(&denied));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (modes, paths, there) = (Arc::clone(&modes), Arc::clone(&paths), there.clone());
                // A connection that the client has closed is ignored.
                std::thread::spawn(move || pass(connection, &there, &modes, &paths));
            }
        });
        Self {
            url: format!("http://{own}/v1"),
            mode,
            denied,
        }
    }

    pub fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// Answers 404 for this path from now on.
    pub fn deny(&self, path: &'static str) {
        *self.denied.lock().unwrap() = Some(path);
    }
}

/// Forwards one request and its answer.
fn pass(
    mut client: TcpStream,
    there: &str,
    modes: &Mutex<Mode>,
    denied: &Mutex<Option<&'static str>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (head, length) = head_of(&mut reader)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let path = head
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    let refuse = |client: &mut TcpStream, status: u16| {
        let body = r#"{"error": {"message": "not now"}}"#;
        let length = body.len();
        write!(
            client,
            "HTTP/1.1 {status} No\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
    };
    if denied.lock().unwrap().is_some_and(|denied| denied == path) {
        return refuse(&mut client, 404);
    }
    let now = {
        let mut mode = modes.lock().unwrap();
        let now = *mode;
        if let Mode::Status(status, times) = now {
            *mode = if times > 1 {
                Mode::Status(status, times - 1)
            } else {
                Mode::Pass
            };
        }
        now
    };
    match now {
        Mode::Pass => {}
        Mode::Wait(time) => std::thread::sleep(time),
        Mode::Status(status, _) => return refuse(&mut client, status),
    }
    let mut server = TcpStream::connect(there)?;
    write!(server, "{head}Connection: close\r\n\r\n")?;
    server.write_all(&body)?;
    let mut answer = BufReader::new(server);
    let (head, length) = head_of(&mut answer)?;
    let mut body = vec![0; length];
    answer.read_exact(&mut body)?;
    write!(client, "{head}Connection: close\r\n\r\n")?;
    client.write_all(&body)
}

/// A message's head without the headers of the connection, and the length of its body.
fn head_of(reader: &mut impl BufRead) -> std::io::Result<(String, usize)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            return Ok((head, length));
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if !lower.starts_with("connection:") && !lower.starts_with("keep-alive:") {
            head.push_str(&line);
        }
    }
}
