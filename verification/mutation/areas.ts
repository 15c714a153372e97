/** Code whose tests are judged by what they notice when it is altered. */
export interface Area {
  readonly name: string
  /** Globs of what is altered, from the root of the repository. */
  readonly mutate: readonly string[]
  /** Globs of the tests that are to notice; with `!` before it, of those that are not asked. */
  readonly tests: readonly string[]
  /** Whether the tests need PostgreSQL or Redis. */
  readonly needsServers: boolean
  /** Files that a few of these tests are to notice alterations of by themselves: to ask all of them would take seconds for each. */
  readonly testsOf?: Readonly<Record<string, readonly string[]>>
}

const tenantDb = (name: string): string => `packages/tenant-db/test/${name}.test.ts`

/** Files of authenticate that decide by themselves, without the exchange and without Redis. */
const rules = [
  'addresses',
  'bearer',
  'clocks',
  'credentials',
  'decide',
  'flights',
  'floors',
  'key-lookup',
  'keys-client',
  'lease',
  'log-mark',
  'short-memory',
  'together',
] as const

/** What decides who is let in, and whose rows they see. */
export const areas: readonly Area[] = [
  {
    name: 'api-key',
    mutate: ['packages/api-key/src/**/*.ts', '!packages/api-key/src/**/*.test.ts'],
    tests: ['packages/api-key/src/**/*.test.ts'],
    needsServers: false,
  },
  {
    name: 'signed-context',
    mutate: ['packages/signed-context/src/**/*.ts', '!packages/signed-context/src/**/*.test.ts'],
    tests: ['packages/signed-context/src/**/*.test.ts'],
    needsServers: false,
  },
  {
    name: 'authorize',
    mutate: ['services/gateway/src/authorize/*.ts', '!services/gateway/src/authorize/*.test.ts'],
    tests: ['services/gateway/src/authorize/*.test.ts'],
    needsServers: false,
  },
  {
    name: 'authenticate',
    mutate: rules.map((name) => `services/gateway/src/authenticate/${name}.ts`),
    tests: ['services/gateway/src/authenticate/*.test.ts'],
    needsServers: false,
    testsOf: Object.fromEntries(
      rules.map((name) => [
        `services/gateway/src/authenticate/${name}.ts`,
        [name, ...(name === 'bearer' ? ['hostile-tokens'] : [])].map(
          (test) => `services/gateway/src/authenticate/${test}.test.ts`,
        ),
      ]),
    ),
  },
  {
    name: 'authenticate-exchange',
    mutate: [
      'services/gateway/src/authenticate/*.ts',
      ...['*.test', ...rules].map((name) => `!services/gateway/src/authenticate/${name}.ts`),
    ],
    tests: ['services/gateway/src/authenticate/*.test.ts'],
    needsServers: true,
    testsOf: Object.fromEntries(
      ['authenticate', 'principal', 'redis-cache', 'tenant-lookup'].map((name) => [
        `services/gateway/src/authenticate/${name}.ts`,
        [name, ...(name === 'authenticate' ? ['authenticate-tokens'] : [])].map(
          (test) => `services/gateway/src/authenticate/${test}.test.ts`,
        ),
      ]),
    ),
  },
  {
    name: 'tenant-db',
    mutate: ['packages/tenant-db/src/**/*.ts'],
    tests: ['packages/tenant-db/test/*.test.ts'],
    needsServers: true,
    testsOf: Object.fromEntries(
      Object.entries({
        'array-literal': ['array-literal'],
        'as-owner': ['as-owner'],
        batch: ['batch-messages', 'batch'],
        'catalog-check': ['catalog-check'],
        connect: ['as-owner', 'migrate'],
        'catalog-rules': ['catalog-check'],
        'describe-schema': ['describe-schema'],
        follow: ['follow-places', 'follow'],
        idempotency: ['idempotency'],
        'login-passwords': ['login-passwords'],
        migrate: ['migrate'],
        pool: ['pool', 'what-a-session-keeps', 'tenant-transaction'],
        retries: ['retries'],
        roles: ['roles', 'assertion'],
        session: ['session', 'what-a-session-keeps', 'tenant-transaction'],
        'sql-error': ['sql-error'],
        'tenant-transaction': ['away', 'pool', 'assertion', 'tenant-transaction', 'follow'],
      }).map(([file, tests]) => [`packages/tenant-db/src/${file}.ts`, tests.map(tenantDb)]),
    ),
  },
]
