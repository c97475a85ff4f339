//! A killed anvil leaves nothing on the machine.

use std::fs;

use tollgate_testkit::Anvil;

#[tokio::test(flavor = "multi_thread")]
async fn anvil_has_a_home_of_its_own_which_is_gone_with_it() {
    let anvil = Anvil::start(&[]).await;
    let (home, process) = (anvil.home().to_owned(), anvil.process_id().unwrap());
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap();
    let wanted = format!("HOME={}", home.display());
    let mut variables = environment.split(|byte| *byte == 0);
    assert!(variables.any(|variable| variable == wanted.as_bytes()), "{wanted} is not set");
    drop(anvil);
    assert!(!home.exists(), "{} is still there", home.display());
    assert!(!fs::exists(format!("/proc/{process}")).unwrap(), "process {process} still runs");
}
