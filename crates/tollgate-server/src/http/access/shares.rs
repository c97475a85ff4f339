//! Places that callers share, such as those of streams: nobody may take all of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_model::access::{KeyId, Tenant};

use super::Caller;

/// A limited number of places (I13). One key may have a quarter of them, all keys of one tenant half. Where no keys
/// are asked for, callers can't be told apart and may have all.
pub(crate) struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_key: HashMap<KeyId, usize>,
    by_tenant: HashMap<Tenant, usize>,
}

/// A caller's place. It is free again when this is dropped.
pub(crate) struct TakenPlace {
    places: Arc<Places>,
    key: Option<KeyId>,
    tenant: Option<Tenant>,
}

impl Places {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// A place for a caller; `None` if there is none, or if its key or tenant has its share.
    pub(crate) fn take(self: &Arc<Self>, caller: &Caller) -> Option<TakenPlace> {
        let (key, tenant) = (caller.key_id(), caller.tenant());
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = taken.all >= self.max
            || count(&taken.by_key, key) >= self.max / 4
            || count(&taken.by_tenant, tenant) >= self.max / 2;
        if is_full {
            return None;
        }
        taken.all += 1;
        if let Some(key) = key {
            *taken.by_key.entry(key.clone()).or_default() += 1;
        }
        if let Some(tenant) = tenant {
            *taken.by_tenant.entry(tenant.clone()).or_default() += 1;
        }
        Some(TakenPlace { places: self.clone(), key: key.cloned(), tenant: tenant.cloned() })
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        release(&mut taken.by_key, self.key.as_ref());
        release(&mut taken.by_tenant, self.tenant.as_ref());
    }
}

fn count<K: Eq + Hash>(taken: &HashMap<K, usize>, of: Option<&K>) -> usize {
    of.and_then(|of| taken.get(of)).copied().unwrap_or_default()
}

fn release<K: Eq + Hash>(taken: &mut HashMap<K, usize>, of: Option<&K>) {
    let Some(of) = of else { return };
    if let Some(count) = taken.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            taken.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_model::Text;
    use tollgate_model::Timestamp;
    use tollgate_model::access::{ApiKey, Rights, SecretHash};

    use super::*;

    fn caller(seed: u8, tenant: Option<&str>) -> Caller {
        let tenant = tenant.map(|name| Tenant::new(name).unwrap());
        let key = ApiKey {
            id: KeyId::from_random([seed; 12]),
            name: Text::lossy("test"),
            hash: SecretHash::from_stored([0; 32]),
            rights: Rights { tenant, ..Rights::all() },
            rate: None,
            created_at: Timestamp::EPOCH,
            created_by: Text::lossy("cli"),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        Caller::with_key(&key, None)
    }

    fn take(places: &Arc<Places>, caller: &Caller) -> Vec<TakenPlace> {
        std::iter::from_fn(|| places.take(caller)).collect()
    }

    #[test]
    fn one_key_gets_a_quarter_and_one_tenant_half_of_the_places() {
        let places = Places::new(40);
        let one = take(&places, &caller(1, None));
        assert_eq!(one.len(), 10);
        let of_tenant: Vec<_> =
            (2..8).flat_map(|seed| take(&places, &caller(seed, Some("acme")))).collect();
        assert_eq!(of_tenant.len(), 20);
        let others: Vec<_> = (8..12).flat_map(|seed| take(&places, &caller(seed, None))).collect();
        assert_eq!(others.len(), 10, "all places are taken");
        drop(one);
        assert_eq!(take(&places, &caller(1, None)).len(), 10, "they are free again");
        drop((of_tenant, others));
        let taken = places.taken.lock().unwrap();
        assert_eq!((taken.all, taken.by_key.len(), taken.by_tenant.len()), (0, 0, 0));
    }

    #[test]
    fn callers_without_keys_may_have_all_places() {
        assert_eq!(take(&Places::new(40), &Caller::without_key(None)).len(), 40);
    }
}
