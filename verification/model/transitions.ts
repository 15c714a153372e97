export interface Transition {
  readonly numbers: readonly number[]
  readonly event: string
  readonly file?: string
  readonly names?: readonly string[]
}

/** The transitions of revocation.pml: what happens in the system, in which file, and names that this file must contain. */
export const transitions: readonly Transition[] = [
  {
    numbers: [1],
    event: 'the gateway sends a renewal, one at a time',
    file: 'services/gateway/src/authenticate/lease.ts',
    names: ['renewNow', 'renewing'],
  },
  {
    numbers: [2, 3],
    event: 'the response is lost, or the gateway gives up while the request may still act',
    file: 'services/gateway/src/authenticate/keys-client.ts',
    names: ['renewalTimeoutMs'],
  },
  {
    numbers: [4],
    event: 'the gateway applies the response: entries, cursor, lease from the time of sending',
    file: 'services/gateway/src/authenticate/lease.ts',
    names: ['applyAnswer', 'watermarks.apply', 'endsMonotonic'],
  },
  {
    numbers: [5],
    event: 'mutation: a process applies a response to its predecessor',
    file: 'services/gateway/src/run-gateway.ts',
    names: ['randomUUID'],
  },
  {
    numbers: [6, 7],
    event: 'a message from Redis',
    file: 'services/gateway/src/authenticate/lease.ts',
    names: ['receive'],
  },
  {
    numbers: [8, 9],
    event: 'the process crashes, or stops and releases its lease',
    file: 'services/gateway/src/run-gateway.ts',
    names: ['releaseLease'],
  },
  {
    numbers: [10],
    event: 'a look-up begins',
    file: 'services/gateway/src/authenticate/single-flight.ts',
    names: ['start'],
  },
  {
    numbers: [11],
    event: 'a record from Redis enters memory',
    file: 'services/gateway/src/authenticate/key-lookup.ts',
    names: ['lookUp', 'keep'],
  },
  {
    numbers: [12],
    event: 'memory evicts a record',
    file: 'services/gateway/src/authenticate/key-lookup.ts',
    names: ['evictSome', 'LRUCache'],
  },
  { numbers: [13, 14], event: 'witnesses' },
  {
    numbers: [15],
    event: 'a request arrives: memory, Redis or its own look-up',
    file: 'services/gateway/src/authenticate/authenticate-key.ts',
    names: ['read', 'lookUp', 'isRevoked'],
  },
  {
    numbers: [16],
    event: 'Redis returns "active" under a lease',
    file: 'services/gateway/src/authenticate/key-lookup.ts',
    names: ['isCurrent'],
  },
  {
    numbers: [17],
    event: 'Redis returns nothing, or the lease has ended',
    file: 'services/gateway/src/authenticate/key-lookup.ts',
    names: ['lookUp', 'share', 'shareNext'],
  },
  {
    numbers: [18, 19],
    event: 'a look-up returns "active", or anything else',
    file: 'services/gateway/src/authenticate/single-flight.ts',
    names: ['withDeadline', 'inProgress', 'next'],
  },
  {
    numbers: [20, 21, 22],
    event: 'mutation: the log is read before the lease',
    file: 'services/keys/src/revocation/lease.ts',
    names: ['answerLease'],
  },
  {
    numbers: [23, 26],
    event: 'the lease: counter and clock in one snapshot',
    file: 'services/keys/migrations/000001_create_schema.sql',
    names: ['keys.grant_lease', 'clock_timestamp'],
  },
  {
    numbers: [24, 27, 29],
    event: 'its commit; abandoned requests end here',
    file: 'services/keys/src/revocation/store.ts',
    names: ['renewLease'],
  },
  {
    numbers: [25, 28],
    event: 'the log is read in a new snapshot',
    file: 'services/keys/migrations/000001_create_schema.sql',
    names: ['keys.follow_log'],
  },
  {
    numbers: [30],
    event: 'an abandoned request has no effect',
    file: 'services/gateway/src/authenticate/keys-client.ts',
    names: ['renewLease'],
  },
  {
    numbers: [31],
    event: 'a look-up reads the row',
    file: 'services/keys/src/lookup/store.ts',
    names: ['findKeyRecord'],
  },
  {
    numbers: [32, 33],
    event: 'a lease is released, or the release is lost',
    file: 'services/keys/migrations/000001_create_schema.sql',
    names: ['keys.release_lease'],
  },
  {
    numbers: [34, 37],
    event: 'a change takes its number as its last act',
    file: 'services/keys/migrations/000001_create_schema.sql',
    names: ['keys.log_change', 'revocation_seq'],
  },
  {
    numbers: [35, 38],
    event: 'the change is committed',
    file: 'services/keys/src/api-key/store.ts',
    names: ['revoked_at'],
  },
  {
    numbers: [36],
    event: 'success: every gateway with a live lease has applied the entry',
    file: 'services/keys/src/revocation/lease-watch.ts',
    names: ['resolveIfApplied', 'hasEnded'],
  },
  {
    numbers: [39],
    event: 'a fill of Redis, in mutations that depend on it',
    file: 'packages/key-cache/src/store-record.ts',
    names: ['storeRecordScript'],
  },
  { numbers: [40], event: 'Redis loses a record', file: 'services/keys/src/key-cache.ts', names: ['noCache'] },
  {
    numbers: [41],
    event: 'a tick of the gateways’ clocks',
    file: 'services/gateway/src/authenticate/clocks.ts',
    names: ['monotonic'],
  },
  {
    numbers: [42],
    event: 'a tick of the clock that ends leases',
    file: 'services/keys/src/revocation/lease-watch.ts',
    names: ['leaseMs'],
  },
]
