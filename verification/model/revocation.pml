/*
 * A model of revocation: services/keys/src/revocation and services/gateway/src/authenticate.
 * README.md lists what is left out. transitions.ts maps each step to the code. revocation-model.test.ts runs the model.
 *
 * One key is revoked once, and another key may change at about the same time. Messages can be late, lost, repeated and out
 * of order. One atomic step stands for one tick of a gateway or one snapshot of the database.
 *
 * Checked:  no_accept_after_success      a request that arrives after the revoke's success is never accepted
 *           unacked_lease_ends_in_time   a lease whose holder has not acknowledged ends at most one lease after the commit
 */

/* The size of the model: gateways, and the processes that run in each of them in turn. OTHER_CHANGE: another key changes. */
#ifndef GATEWAYS
#define GATEWAYS 1
#endif
#ifndef STARTS
#define STARTS 1
#endif

/* Durations in ticks. The clocks of the gateways and of the database tick in turn, so they can differ by one tick. The margin
   covers this tick. */
#define LEASE 3
#ifdef NO_MARGIN
#define USABLE LEASE
#else
#define USABLE (LEASE - 1)
#endif

/* The rows of keys.gateway_lease: one for each process. */
#define ROWS (GATEWAYS * STARTS)
#if GATEWAYS * STARTS > 2
#error isInForce below checks only two rows
#endif
#ifdef SAME_IDENTITY
#define rowOf(g, process) ((g) * STARTS)
#else
#define rowOf(g, process) ((g) * STARTS + (process))
#endif

/* Designs without watermarks, in their best case: Redis changes in the same step as the commit. */
#if defined(DELETE_IN_REDIS) || defined(TOMBSTONE_IN_REDIS)
#define NO_WATERMARKS
#define CANCEL_FILLS
#define REDIS_MATTERS
#endif
#ifdef LATE_FILL_WINS
#define NO_WATERMARKS
#endif

/* A change in the database: not begun; has its number and locks the counter's row; committed. */
#define IDLE 0
#define NUMBERED 1
#define COMMITTED 2

/* A renewal: none; sent; the lease's statement has read the counter and the clock; committed; the log is read. */
#define NONE 0
#define SENT 1
#define CHECKED 2
#define LEASED 3
#define ANSWERED 4
#define LOG_READ 5 /* in LOG_BEFORE_LEASE only */

/* A look-up at the keys service: none; asked; has read 'active'. If it reads 'revoked', it ends like a failure. */
#define ASKED 1
#define ACTIVE 2

/* The key's record in Redis: none, ACTIVE, or a tombstone. */
#define TOMBSTONE 3

/* A request that arrived after the success: none; waits for Redis, for the current look-up, or for the next one. */
#define AT_REDIS 1
#define AT_LOOKUP 2
#define AT_NEXT_LOOKUP 3

#define NO_CURSOR 3

typedef Gateway {
  unsigned process : 1;
  unsigned held : 2;       /* ticks of its own clock in which it may still use caches */
  unsigned cursor : 2;
  bit watermark;           /* the gateway knows that the key is revoked */
  bit memory;              /* L1 holds the key as active */
  unsigned lookup : 2;     /* one look-up of a key at a time */
  unsigned request : 2
};

typedef Renewal {
  unsigned stage : 3;
  unsigned process : 1;    /* the one that sent it */
  unsigned cursor : 2;
  unsigned age : 2;        /* ticks of the gateway's clock since it was sent */
  unsigned left : 2;       /* ticks of the database's clock left of the lease before its commit */
  bit granted;
  bit has;                 /* the answer contains the key's entry */
  unsigned seq : 2         /* the end of the log when it was read */
};

typedef Lease {
  unsigned left : 2;       /* ticks of the database's clock until lease_until */
  unsigned acked : 2;
  bit releasing            /* a release was sent */
};

typedef Change {
  unsigned stage : 2;
  unsigned seq : 2
};

Gateway gateway[GATEWAYS];
Renewal renewal[GATEWAYS];   /* the gateway waits for its answer */
Renewal abandoned[GATEWAYS]; /* the gateway does not wait for its answer, but the keys service may still act on it */
Lease lease[ROWS];
Change revoke;               /* of the modelled key */
Change other;                /* of another key */
unsigned counter : 2;        /* keys.revocation_seq as committed */
#ifdef REDIS_MATTERS
unsigned redis : 2;
#endif
bit success;
unsigned since : 2;          /* ticks of the database's clock since the revoke's commit, up to LEASE */
bit databases_turn;          /* whose clock ticks next */

bit no_accept_after_success = 1;
bit unacked_lease_ends_in_time = 1;
bit not_yet_seen = 1;        /* a witness proves that a state is possible: it fails when it is reached */
#define witness(seen) if :: seen -> not_yet_seen = 0 :: else fi; assert(not_yet_seen)

#define GW gateway[g]

/* Redis is not trusted: fills are late, tombstones are lost, and a restart from an old file brings records back. So it can
   answer 'active' at any time. */
#ifdef REDIS_MATTERS
#define redisSaysActive (redis == ACTIVE)
#else
#define redisSaysActive (1)
#endif

#ifdef SERVE_AFTER_LEASE
bit hadLease[GATEWAYS];
#define isHeld(g) (hadLease[g])
#else
#define isHeld(g) (gateway[g].held > 0)
#endif

/* ---- gateway --------------------------------------------------------------------------------------------------------- */

/* watermarks.apply */
inline apply() {
#ifdef NO_WATERMARKS
  /* The change is not stored. It only clears the current cache. */
  GW.memory = 0;
#ifdef CANCEL_FILLS
  if
  :: GW.lookup == ACTIVE -> GW.lookup = ASKED
  :: else
  fi
#endif
#else
  GW.watermark = 1
#endif
}

/* decideKey, with a record that says 'active', for a request that arrived after the success */
inline decide() {
  GW.request = 0;
  if
  :: !GW.watermark -> no_accept_after_success = 0
  :: else
  fi;
  assert(no_accept_after_success)
}

/* SingleFlight.share: under a lease */
inline share() {
  if
  :: GW.lookup == NONE -> GW.lookup = ASKED
  :: else
  fi;
  GW.request = AT_LOOKUP
}

/* SingleFlight.shareNext: without a lease */
inline shareNext() {
#ifdef JOIN_OLDER_LOOKUP
  share()
#else
  if
  :: GW.lookup == NONE -> GW.lookup = ASKED; GW.request = AT_LOOKUP
  :: else -> GW.request = AT_NEXT_LOOKUP
  fi
#endif
}

/* SingleFlight: a look-up ends, and the next one, if a request waits for it, begins at once */
inline lookupEnds(saysActive) {
  GW.lookup = NONE;
  if
  :: GW.request == AT_LOOKUP && saysActive -> decide()
  :: GW.request == AT_LOOKUP && !saysActive -> GW.request = 0
  :: GW.request == AT_NEXT_LOOKUP -> GW.lookup = ASKED; GW.request = AT_LOOKUP
  :: else
  fi
}

inline forget(R) {
  R.stage = NONE; R.process = 0; R.cursor = 0; R.age = 0; R.left = 0; R.granted = 0; R.has = 0; R.seq = 0
}

/* applyAnswer: the entries are applied before the lease begins, and the lease counts from the moment of sending */
inline applyAnswer(R, elapsed) {
  if
  :: R.has -> apply()
  :: else
  fi;
  if
  :: GW.cursor == NO_CURSOR || GW.cursor < R.seq -> GW.cursor = R.seq
  :: else
  fi;
  if
#ifdef LEASE_FROM_REPLY
  :: R.granted -> GW.held = USABLE
#else
  :: R.granted -> GW.held = (elapsed < USABLE -> USABLE - elapsed : 0)
#endif
  :: else
  fi;
#ifdef SERVE_AFTER_LEASE
  if
  :: R.granted -> hadLease[g] = 1
  :: else
  fi;
#endif
#ifdef WITNESS_LEASE_AFTER_RESTART
  witness(success && GW.held && GW.process == 1);
#endif
  forget(R)
}

/* receive: a revocation from Redis */
inline receive(entry) {
  if
#ifdef CURSOR_SKIPS_GAP
  :: GW.cursor != NO_CURSOR && GW.cursor < entry -> GW.cursor = entry
#else
  :: GW.cursor != NO_CURSOR && GW.cursor + 1 == entry -> GW.cursor = entry
#endif
  :: else
  fi
}

inline abandon() {
  abandoned[g].stage = renewal[g].stage;
  abandoned[g].process = renewal[g].process;
  abandoned[g].cursor = renewal[g].cursor;
  abandoned[g].left = renewal[g].left;
  abandoned[g].granted = renewal[g].granted;
  abandoned[g].has = renewal[g].has;
  abandoned[g].seq = renewal[g].seq;
  forget(renewal[g])
}

/* Whether the keys service can still act on it. Once it is answered, an abandoned renewal has no effect. */
#ifdef ANSWER_OF_DEAD_PROCESS
#define isEffective(R) (R.stage != NONE)
#else
#define isEffective(R) (R.stage == SENT || R.stage == CHECKED || R.stage == LOG_READ)
#endif

/* A process ends and another one begins: its memory is lost, but its messages can still arrive. */
inline startAgain() {
  if
  :: isEffective(renewal[g]) && abandoned[g].stage == NONE -> abandon()
  :: forget(renewal[g])
  fi;
  GW.process = GW.process + 1;
  GW.held = 0; GW.watermark = 0; GW.memory = 0; GW.lookup = NONE; GW.request = 0;
#ifdef SERVE_AFTER_LEASE
  hadLease[g] = 0;
#endif
#ifdef START_WITHOUT_PAST
  GW.cursor = counter
#else
  GW.cursor = NO_CURSOR
#endif
}

proctype GatewayProcess(byte g) {
  do
  /* renewNow: at any time, because timers, answers and messages call it; one at a time */
  :: /* [1] */ d_step { renewal[g].stage == NONE ->
       renewal[g].stage = SENT; renewal[g].process = GW.process; renewal[g].cursor = GW.cursor }
  /* renew() rejects: the request or its answer is lost or late */
  :: /* [2] */ d_step { renewal[g].stage != NONE -> forget(renewal[g]) }
  :: /* [3] */ d_step { isEffective(renewal[g]) && abandoned[g].stage == NONE -> abandon() }
  /* renew() resolves */
  :: /* [4] */ d_step { renewal[g].stage == ANSWERED -> applyAnswer(renewal[g], renewal[g].age) }
#ifdef ANSWER_OF_DEAD_PROCESS
  /* ... with an answer for the process before */
  :: /* [5] */ d_step { renewal[g].stage != NONE && abandoned[g].stage == ANSWERED && abandoned[g].process != GW.process ->
       applyAnswer(abandoned[g], renewal[g].age);
       forget(renewal[g]) }
#endif
  /* a message from Redis: any number of times, late, and in any order */
  :: /* [6] */ d_step { revoke.stage == COMMITTED && (!GW.watermark || GW.cursor < revoke.seq) ->
       apply(); receive(revoke.seq) }
#ifdef OTHER_CHANGE
  :: /* [7] */ d_step { other.stage == COMMITTED && GW.cursor < other.seq -> receive(other.seq) }
#endif
#if STARTS > 1
  /* crash */
  :: /* [8] */ d_step { GW.process < STARTS - 1 -> startAgain() }
  /* stop: the gateway gives up its lease and sends a release */
  :: /* [9] */ d_step { GW.process < STARTS - 1 -> lease[rowOf(g, GW.process)].releasing = 1; startAgain() }
#endif
  /* Earlier requests and requests with other keys fill and empty the caches. */
  :: /* [10] */ d_step { GW.lookup == NONE -> GW.lookup = ASKED }
  :: /* [11] */ d_step { isHeld(g) && redisSaysActive && !GW.memory -> GW.memory = 1 }
  :: /* [12] */ d_step { GW.memory -> GW.memory = 0 }
#ifdef WITNESS_ACCEPT_FROM_MEMORY
  :: /* [13] */ d_step { !success && GW.memory -> witness(isHeld(g) && !GW.watermark) }
#endif
#ifdef WITNESS_WATERMARK_OVERRULES
  :: /* [14] */ d_step { success && GW.memory -> witness(isHeld(g) && GW.watermark) }
#endif
  /* A request arrives after the success: findInMemory, read, obtain. A watermark refuses it at once. */
  :: /* [15] */ d_step { success && GW.request == 0 && !GW.watermark ->
       if
       :: isHeld(g) && GW.memory -> decide()
       :: isHeld(g) && !GW.memory -> GW.request = AT_REDIS
       :: !isHeld(g) -> shareNext()
       fi }
  :: /* [16] */ d_step { GW.request == AT_REDIS && isHeld(g) && redisSaysActive -> GW.memory = 1; decide() }
  /* nothing, a tombstone, no answer in time, or the lease has ended */
  :: /* [17] */ d_step { GW.request == AT_REDIS ->
       if
       :: isHeld(g) -> share()
       :: else -> shareNext()
       fi }
  /* a look-up ends with 'active'; with 'revoked' or a failure */
  :: /* [18] */ d_step { GW.lookup == ACTIVE -> GW.memory = 1; lookupEnds(1) }
  :: /* [19] */ d_step { GW.lookup != NONE -> lookupEnds(0) }
  od
}

/* ---- keys service ---------------------------------------------------------------------------------------------------- */

/* keys.grant_lease reads the counter, in the snapshot of its statement, and the clock ... */
inline checkLease(R) {
#ifdef UNCONDITIONAL_RENEWAL
  R.granted = (R.cursor != NO_CURSOR);
#else
  R.granted = (R.cursor == counter);
#endif
  R.left = (R.granted -> LEASE : 0);
  R.stage = CHECKED
}

/* ... and commits. The end of a lease and the acknowledged number never decrease. */
inline commitLease(R) {
  if
  :: R.cursor != NO_CURSOR && lease[rowOf(g, R.process)].acked < R.cursor -> lease[rowOf(g, R.process)].acked = R.cursor
  :: else
  fi;
  if
  :: lease[rowOf(g, R.process)].left < R.left -> lease[rowOf(g, R.process)].left = R.left
  :: else
  fi;
  R.left = 0;
  R.stage = LEASED
}

/* keys.follow_log, in its own snapshot */
inline readLog(R) {
  R.seq = counter;
  R.has = (revoke.stage == COMMITTED && (R.cursor == NO_CURSOR || R.cursor < revoke.seq));
  R.stage = ANSWERED
}

proctype KeysService(byte g) {
  do
  /* answerLease */
#ifdef LOG_BEFORE_LEASE
  :: /* [20] */ d_step { renewal[g].stage == SENT -> readLog(renewal[g]); renewal[g].stage = LOG_READ }
  :: /* [21] */ d_step { renewal[g].stage == LOG_READ -> checkLease(renewal[g]) }
  :: /* [22] */ d_step { renewal[g].stage == CHECKED -> commitLease(renewal[g]); renewal[g].cursor = 0; renewal[g].stage = ANSWERED }
#else
  :: /* [23] */ d_step { renewal[g].stage == SENT -> checkLease(renewal[g]) }
  :: /* [24] */ d_step { renewal[g].stage == CHECKED -> commitLease(renewal[g]) }
  :: /* [25] */ d_step { renewal[g].stage == LEASED -> readLog(renewal[g]); renewal[g].cursor = 0 }
#endif
  :: /* [26] */ d_step { abandoned[g].stage == SENT -> checkLease(abandoned[g]) }
#ifdef ANSWER_OF_DEAD_PROCESS
  :: /* [27] */ d_step { abandoned[g].stage == CHECKED -> commitLease(abandoned[g]) }
  :: /* [28] */ d_step { abandoned[g].stage == LEASED -> readLog(abandoned[g]) }
#else
  :: /* [29] */ d_step { abandoned[g].stage == CHECKED -> commitLease(abandoned[g]); forget(abandoned[g]) }
#endif
  :: /* [30] */ d_step { abandoned[g].stage != NONE -> forget(abandoned[g]) }
  /* keys.find_key_by_hash, on the primary; for 'revoked' see lookupEnds */
  :: /* [31] */ d_step { GW.lookup == ASKED && revoke.stage != COMMITTED -> GW.lookup = ACTIVE }
#if STARTS > 1
  /* keys.release_lease; or the release is lost */
  :: /* [32] */ d_step { lease[rowOf(g, 0)].releasing -> lease[rowOf(g, 0)].releasing = 0; lease[rowOf(g, 0)].left = 0 }
  :: /* [33] */ d_step { lease[rowOf(g, 0)].releasing -> lease[rowOf(g, 0)].releasing = 0 }
#endif
  od
}

/* keys.log_change: the last statement locks the counter's row until the commit */
#ifdef SEQUENCE_NUMBERS
unsigned drawn : 2;
#define mayNumber(another) (1)
#define number(change) drawn = drawn + 1; change.seq = drawn; change.stage = NUMBERED
#else
#define mayNumber(another) (another.stage != NUMBERED)
#define number(change) change.seq = counter + 1; change.stage = NUMBERED
#endif
#define commit(change) counter = (counter < change.seq -> change.seq : counter); change.stage = COMMITTED

#define isLive(row) (lease[row].left > 0)
#define isApplied(row) (lease[row].acked >= revoke.seq)
#ifdef LEASES_BEFORE_COMMIT
bit listed[ROWS]; /* the revoke waits for these leases */
#define isWaitedFor(row) (isLive(row) && !isApplied(row) && listed[row])
#else
#define isWaitedFor(row) (isLive(row) && !isApplied(row))
#endif

/* resolveIfApplied: in this snapshot, each holder of a live lease has applied the entry */
#ifdef NO_WAIT
#define isInForce (1)
#elif ROWS == 1
#define isInForce (!isWaitedFor(0))
#else
#define isInForce (!isWaitedFor(0) && !isWaitedFor(1))
#endif

proctype Revoke() {
  byte r;
  /* [34] */ d_step { mayNumber(other) -> number(revoke);
#ifdef LEASES_BEFORE_COMMIT
    for (r : 0 .. ROWS - 1) { listed[r] = isLive(r) }
    r = 0
#endif
  }
  /* [35] */ d_step { commit(revoke);
#ifdef TOMBSTONE_IN_REDIS
    redis = TOMBSTONE
#endif
#ifdef DELETE_IN_REDIS
    redis = NONE
#endif
  }
  /* [36] */ d_step { isInForce -> success = 1;
#ifdef WITNESS_CONFIRMED
    witness(isLive(0) && isHeld(0) && since == 0);
#endif
#ifdef WITNESS_FENCED
    witness(gateway[0].process == 0 && !isLive(0) && !isApplied(0) && gateway[0].memory && since == LEASE);
#endif
  }
}

#ifdef OTHER_CHANGE
proctype OtherChange() {
  /* [37] */ d_step { mayNumber(revoke) -> number(other) }
  /* [38] */ d_step { commit(other) }
}
#endif

/* ---- Redis, for the designs that depend on it -------------------------------------------------------------------------- */

#ifdef REDIS_MATTERS
proctype Redis() {
  do
  /* storeRecordScript: a late fill by a keys service that read the row before the commit; never over a tombstone */
  :: /* [39] */ d_step { redis == NONE -> redis = ACTIVE }
#ifdef REDIS_FORGETS
  /* flushed, evicted, restarted, failed over */
  :: /* [40] */ d_step { redis != NONE -> redis = NONE }
#endif
  od
}
#endif

/* ---- time ------------------------------------------------------------------------------------------------------------ */

proctype Clock() {
  byte i;
  do
  :: /* [41] */ d_step { !databases_turn ->
       databases_turn = 1;
       for (i : 0 .. GATEWAYS - 1) {
         if
         :: gateway[i].held > 0 -> gateway[i].held = gateway[i].held - 1
         :: else
         fi;
         if
         :: renewal[i].stage != NONE && renewal[i].age < USABLE -> renewal[i].age = renewal[i].age + 1
         :: else
         fi
       }
       i = 0 }
  :: /* [42] */ d_step { databases_turn ->
       databases_turn = 0;
       for (i : 0 .. ROWS - 1) {
         if
         :: lease[i].left > 0 -> lease[i].left = lease[i].left - 1
         :: else
         fi
       }
       for (i : 0 .. GATEWAYS - 1) {
         if
         :: renewal[i].left > 0 -> renewal[i].left = renewal[i].left - 1
         :: else
         fi;
         if
         :: abandoned[i].left > 0 -> abandoned[i].left = abandoned[i].left - 1
         :: else
         fi
       }
       if
       :: revoke.stage == COMMITTED && since < LEASE -> since = since + 1
       :: else
       fi;
       for (i : 0 .. ROWS - 1) {
         if
         :: since == LEASE && isLive(i) && !isApplied(i) -> unacked_lease_ends_in_time = 0
         :: else
         fi
       }
       assert(unacked_lease_ends_in_time);
       i = 0 }
  od
}

init {
  byte g;
  atomic {
    for (g : 0 .. GATEWAYS - 1) {
      gateway[g].cursor = NO_CURSOR;
      run GatewayProcess(g);
      run KeysService(g)
    }
    g = 0;
    run Revoke();
#ifdef OTHER_CHANGE
    run OtherChange();
#endif
#ifdef REDIS_MATTERS
    run Redis();
#endif
    run Clock()
  }
}
