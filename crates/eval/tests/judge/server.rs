//! A chat endpoint on a real socket that can misbehave in every way a real one does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub enum Reply {
    /// Status, extra header lines, body.
    Http(u16, String, String),
    /// Says nothing until the client gives up.
    Hang,
    /// Closes with RST.
    Reset,
    /// A 200 that ends in the middle of its body.
    Truncated,
}

/// A 200 whose message says `content`.
pub fn says(content: &str) -> Reply {
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 10 });
    let choice = json!({ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" });
    Reply::Http(200, String::new(), json!({ "choices": [choice], "usage": usage }).to_string())
}

pub fn status(status: u16, headers: &str, body: &str) -> Reply {
    Reply::Http(status, headers.into(), body.into())
}

/// One request as the server saw it.
#[derive(Clone)]
pub struct Seen {
    /// The user message.
    pub text: String,
    pub body: Value,
    pub authorization: Option<String>,
    /// How often this very message came before.
    pub attempt: usize,
    pub at: Instant,
}

#[derive(Default)]
struct Log {
    seen: Vec<Seen>,
    attempts: HashMap<String, usize>,
    under_way: usize,
    most_under_way: usize,
}

pub struct Server {
    pub base_url: String,
    log: Arc<Mutex<Log>>,
}

impl Server {
    /// Answers each request with what `script` says.
    pub async fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (log, script) = (Arc::new(Mutex::new(Log::default())), Arc::new(script));
        let shared = log.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone(), script.clone()));
            }
        });
        Self { base_url, log }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.log.lock().unwrap().seen.clone()
    }

    pub fn most_under_way(&self) -> usize {
        self.log.lock().unwrap().most_under_way
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Mutex<Log>>, script: Arc<impl Fn(&Seen) -> Reply>) {
    while let Some((head, body)) = read(&mut stream).await {
        assert!(head.starts_with("POST /v1/chat/completions "), "{head}");
        let body: Value = serde_json::from_slice(&body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let text = messages.last().unwrap()["content"].as_str().unwrap().to_string();
        let header =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_string()));
        let authorization =
            head.lines().filter_map(header).find(|(name, _)| name == "authorization").map(|(_, value)| value);
        let seen = {
            let mut log = log.lock().unwrap();
            let attempt = log.attempts.entry(text.clone()).or_default();
            let seen = Seen { text, body, authorization, attempt: *attempt, at: Instant::now() };
            *attempt += 1;
            log.seen.push(seen.clone());
            log.under_way += 1;
            log.most_under_way = log.most_under_way.max(log.under_way);
            seen
        };
        let reply = script(&seen);
        tokio::time::sleep(Duration::from_millis(2)).await;
        log.lock().unwrap().under_way -= 1;
        let text = match reply {
            Reply::Http(status, headers, body) => format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
                body.len()
            ),
            Reply::Hang => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                return;
            }
            Reply::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
            Reply::Truncated => {
                let half = "HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n{\"choices\": [{\"mess";
                let _ = stream.write_all(half.as_bytes()).await;
                return;
            }
        };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Head and body of the next request on the connection.
async fn read(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let length: usize = length.unwrap_or(0);
    while bytes.len() < end + length {
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    }
    Some((head, bytes[end..end + length].to_vec()))
}
