//! The programs of docs/integrating.md pay once although an answer is lost, and however often they are run.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::program::http_get;
use crate::readme::Node;

/// The account that the programs pay.
const TARGET: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// More than a create of these programs has.
const REQUEST_BYTES: usize = 65_536;

/// Jackson, as Debian has it.
const JAVA_LIBRARIES: &str = "/usr/share/java/*";

fn text_of(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The code block that follows a mark.
fn block(mark: &str) -> String {
    let page = text_of("docs/integrating.md");
    let (_, rest) = page.split_once(&format!("<!-- {mark} -->\n```")).unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// Copies bytes until one side ends, then ends both.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// True if head and body of a request are there: a program may send them apart.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.is_some_and(|length| body.len() >= length.trim().parse().unwrap())
}

/// A way to the node on which the answer to the first request is lost: the node has carried it out by then.
/// Returns its URL.
fn lossy(host: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let host = host.to_owned();
    thread::spawn(move || {
        for (number, caller) in listener.incoming().enumerate() {
            let (mut caller, mut node) = (caller.unwrap(), TcpStream::connect(&host).unwrap());
            if number == 0 {
                let mut request = vec![0; REQUEST_BYTES];
                let mut length = 0;
                while !is_whole(&request[..length]) {
                    let count = caller.read(&mut request[length..]).unwrap();
                    assert_ne!(count, 0, "a whole request comes first");
                    node.write_all(&request[length..length + count]).unwrap();
                    length += count;
                }
                let _ = node.read(&mut request);
                let _ = (caller.shutdown(Shutdown::Both), node.shutdown(Shutdown::Both));
                continue;
            }
            let (up, down) = (caller.try_clone().unwrap(), node.try_clone().unwrap());
            thread::spawn(move || pump(up, node));
            thread::spawn(move || pump(down, caller));
        }
    });
    url
}

/// Runs a program of the page, twice; the first answer that it gets is lost. `ended` is its word for a payment that was made.
async fn pays_once(mark: &str, file: &str, interpreter: &[&str], ended: &str) {
    let (program, options) = interpreter.split_first().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(file), block(mark)).unwrap();
    let node = Node::start();
    let url = lossy(&node.host);
    let run = || -> Output {
        let mut command = Command::new(program);
        command.args(options).args([file, "W-1", TARGET, "1000"]).current_dir(folder.path());
        command.env("GOCACHE", folder.path()).env("GOFLAGS", "-mod=mod");
        command.env("TOLLGATE_URL", &url).env("NO_PROXY", "*").env_remove("TOLLGATE_API_KEY");
        let missing = format!("{program} is not on the machine: scripts/setup");
        command.stdin(Stdio::null()).output().expect(&missing)
    };
    let first = run();
    let errors = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{errors}");
    assert!(errors.contains("no answer, asking again"), "no answer was lost: {errors}");
    let said = String::from_utf8_lossy(&first.stdout).into_owned();
    assert!(said.starts_with(&format!("W-1 {ended} 0x")), "{said}");
    assert_eq!(String::from_utf8_lossy(&run().stdout), said, "the second run books nothing");
    let port = node.host.rsplit(':').next().unwrap().parse().unwrap();
    let listed = http_get(port, "/api/v1/tx").await.unwrap();
    assert_eq!(listed.matches("\"txId\"").count(), 1, "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn python_program_pays_once_although_an_answer_is_lost() {
    pays_once("python", "withdraw.py", &["python3"], "DONE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_program_pays_once_although_an_answer_is_lost() {
    pays_once("node", "withdraw.mjs", &["node"], "DONE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_program_pays_once_although_an_answer_is_lost() {
    pays_once("java", "Withdraw.java", &["java", "-cp", JAVA_LIBRARIES], "CONFIRMED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn go_program_pays_once_although_an_answer_is_lost() {
    pays_once("go", "withdraw.go", &["go", "run"], "CONFIRMED").await;
}

#[test]
fn call_data_of_a_token_transfer_is_as_shown() {
    let output = Command::new("python3").args(["-c", &block("erc20")]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn rust_program_of_the_page_is_the_example_of_the_client() {
    assert_eq!(block("rust") + "\n", text_of("crates/tollgate-client/examples/withdraw.rs"));
}
