const full = {
  starts: 6,
  rounds: 2,
  seconds: 2,
  warmUpSeconds: 8,
  pacedSeconds: 4,
  partsRounds: 4,
  keyCounts: [
    { keys: 1, tenants: 1 },
    { keys: 1000, tenants: 1 },
    { keys: 10_000, tenants: 1 },
    { keys: 10_000, tenants: 10_000 },
    { keys: 1_000_000, tenants: 1 },
  ],
  hot: {
    many: 1_000_000,
    used: 10_000,
    tenants: 10_000,
    starts: 6,
    rounds: 3,
    seconds: 3,
    pieces: 12,
    missing: { hot: 1000, few: 50_000, oneIn: 20, starts: 4 },
  },
  coldKeys: 100_000,
  coldSeconds: 600,
  fillSeconds: 540,
  revocations: { up: 100, down: 30 },
}

const quick: typeof full = {
  starts: 3,
  rounds: 2,
  seconds: 2,
  warmUpSeconds: 4,
  pacedSeconds: 1,
  partsRounds: 3,
  keyCounts: [
    { keys: 1, tenants: 1 },
    { keys: 1000, tenants: 1 },
    { keys: 1000, tenants: 1000 },
  ],
  hot: {
    many: 10_000,
    used: 500,
    tenants: 500,
    starts: 2,
    rounds: 2,
    seconds: 2,
    pieces: 8,
    missing: { hot: 100, few: 8000, oneIn: 20, starts: 2 },
  },
  coldKeys: 2000,
  coldSeconds: 10,
  fillSeconds: 10,
  revocations: { up: 10, down: 5 },
}

/** Shows only that the bench itself works. */
const tiny: typeof full = {
  ...quick,
  starts: 1,
  rounds: 1,
  seconds: 1,
  warmUpSeconds: 1,
  partsRounds: 1,
  keyCounts: [{ keys: 100, tenants: 100 }],
  hot: {
    many: 3000,
    used: 100,
    tenants: 100,
    starts: 1,
    rounds: 1,
    seconds: 1,
    pieces: 2,
    missing: { hot: 50, few: 3000, oneIn: 20, starts: 1 },
  },
  coldKeys: 1000,
  revocations: { up: 3, down: 2 },
}

/** Plans by the name of the option. */
export const plans = { full, quick, tiny } as const
