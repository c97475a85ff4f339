//! Keys of a mnemonic (BIP-39), derived by path (BIP-32, BIP-44).
//!
//! The derivation is written here because the crates for it bring another copy of secp256k1. Test vectors
//! are those of the specification and the well-known accounts of development nodes.

use hmac::{Hmac, KeyInit, Mac};
use secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};
use sha2::Sha512;
use zeroize::Zeroizing;

use crate::key::{BadKey, Key};

/// Indexes from here on are hardened.
const HARDENED: u32 = 1 << 31;
/// The path of Ethereum accounts up to the index: `m/44'/60'/0'/0`.
const PATH: [u32; 4] = [44 | HARDENED, 60 | HARDENED, HARDENED, 0];

/// The keys of a mnemonic. Not printable; zeroised when dropped.
pub struct HdKeys {
    /// The node of the tree that holds all accounts.
    accounts: TreeNode,
}

impl HdKeys {
    /// Reads a mnemonic of English words. It has no passphrase.
    ///
    /// # Errors
    /// Says what is wrong and repeats no word.
    pub fn from_mnemonic(words: &str) -> Result<Self, BadMnemonic> {
        let words = Zeroizing::new(words.split_whitespace().collect::<Vec<_>>().join(" "));
        let mnemonic = bip39::Mnemonic::parse_in_normalized(bip39::Language::English, &words);
        let mnemonic = mnemonic.map_err(|error| match error {
            bip39::Error::BadWordCount(_) => BadMnemonic("must be 12, 15, 18, 21 or 24 words"),
            bip39::Error::UnknownWord(_) => BadMnemonic("a word is not in the English list"),
            _ => BadMnemonic("the checksum is wrong: a word is missing, wrong or misplaced"),
        })?;
        let seed = Zeroizing::new(mnemonic.to_seed_normalized(""));
        let root = TreeNode::root(&seed[..]).ok_or(BadMnemonic("it has no keys"))?;
        let accounts = PATH.iter().try_fold(root, |node, index| node.child(*index));
        Ok(Self { accounts: accounts.ok_or(BadMnemonic("it has no keys"))? })
    }

    /// The key of the account with this index.
    ///
    /// # Errors
    /// No such key exists, which happens for one index in 2^127.
    pub fn key(&self, index: u32) -> Result<Key, BadKey> {
        let child = self.accounts.child(index & !HARDENED).ok_or(BadKey::OutOfRange)?;
        Key::from_bytes(&Zeroizing::new(child.secret.secret_bytes()))
    }
}

/// The reason why words are no mnemonic. Contains none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadMnemonic(&'static str);

struct TreeNode {
    secret: SecretKey,
    chain_code: Zeroizing<[u8; 32]>,
}

impl TreeNode {
    fn root(seed: &[u8]) -> Option<Self> {
        let (left, chain_code) = digest(b"Bitcoin seed", &[seed]);
        Some(Self { secret: SecretKey::from_byte_array(*left).ok()?, chain_code })
    }

    fn child(&self, index: u32) -> Option<Self> {
        let parent = match index >= HARDENED {
            true => Zeroizing::new([&[0], &self.secret.secret_bytes()[..]].concat()),
            false => {
                let public = PublicKey::from_secret_key(SECP256K1, &self.secret);
                Zeroizing::new(public.serialize().to_vec())
            }
        };
        let (left, chain_code) = digest(&*self.chain_code, &[&parent, &index.to_be_bytes()]);
        let tweak = Scalar::from_be_bytes(*left).ok()?;
        Some(Self { secret: self.secret.add_tweak(&tweak).ok()?, chain_code })
    }
}

impl Drop for TreeNode {
    fn drop(&mut self) {
        // Despite its name, a volatile write with a fence.
        self.secret.non_secure_erase();
    }
}

type Half = Zeroizing<[u8; 32]>;

/// HMAC-SHA512 in two halves.
fn digest(key: &[u8], parts: &[&[u8]]) -> (Half, Half) {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    let bytes = Zeroizing::new(<[u8; 64]>::from(mac.finalize().into_bytes()));
    let (mut left, mut right) = (Half::default(), Half::default());
    left.copy_from_slice(&bytes[..32]);
    right.copy_from_slice(&bytes[32..]);
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, hex};

    const WORDS: &str = "test test test test test test test test test test test junk";

    #[test]
    fn accounts_of_the_mnemonic_of_development_nodes_are_the_known_ones() {
        let keys = HdKeys::from_mnemonic(WORDS).unwrap();
        let known = [
            (0, address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266")),
            (1, address!("70997970C51812dc3A010C7d01b50e0d17dc79C8")),
            (9, address!("a0Ee7A142d267C1f36714E4a8F75612F20a79720")),
        ];
        for (index, address) in known {
            assert_eq!(keys.key(index).unwrap().address(), address);
        }
        let spaced = format!("  {}\n", WORDS.replace(' ', "  "));
        let again = HdKeys::from_mnemonic(&spaced).unwrap();
        assert_eq!(again.key(0).unwrap().address(), known[0].1);
    }

    #[test]
    fn derivation_follows_the_first_vector_of_bip_32() {
        let root = TreeNode::root(&hex!("000102030405060708090a0b0c0d0e0f")).unwrap();
        let child = root.child(HARDENED).unwrap().child(1).unwrap();
        let known = hex!("3c6cb8d0f6a264c91ea8b5030fadaa8e538b020f0a387421a12de9319dc93368");
        assert_eq!(child.secret.secret_bytes(), known);
    }

    #[test]
    fn words_that_are_no_mnemonic_are_refused_without_repeating_them() {
        for bad in ["", "test test", &WORDS.replace("junk", "test"), &WORDS.replace("junk", "junc")]
        {
            let error = HdKeys::from_mnemonic(bad).err().unwrap().to_string();
            assert!(!error.contains("test") && !error.contains("junc"), "{error}");
        }
    }
}
