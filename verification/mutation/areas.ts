export interface Area {
  readonly name: string
  readonly mutate: readonly string[]
  readonly tests: readonly string[]
  readonly needsServers: boolean
  /** All tests take seconds per mutant. */
  readonly testsOf?: Readonly<Record<string, readonly string[]>>
}

const tenantDb = (name: string): string => `packages/tenant-db/test/${name}.test.ts`

const access = ['access', 'address-matcher', 'decide-key', 'route-match'] as const

/** They decide without network and Redis. */
const rules = [
  'addresses',
  'batch-requests',
  'bearer',
  'clocks',
  'credentials',
  'decide',
  'key-lookup',
  'keys-client',
  'lease',
  'log-mark',
  'revocation-watermarks',
  'single-flight',
  'ttl-cache',
] as const

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
    mutate: [
      'services/gateway/src/authorize-request.ts',
      'services/gateway/src/authorize/*.ts',
      '!services/gateway/src/authorize/*.test.ts',
      ...access.map((name) => `packages/service-kit/src/access/${name}.ts`),
    ],
    tests: [
      'services/gateway/src/authorize-request.test.ts',
      'services/gateway/src/authorize/*.test.ts',
      'packages/service-kit/src/access/*.test.ts',
      ...['addresses', 'decide'].map((name) => `services/gateway/src/authenticate/${name}.test.ts`),
    ],
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
        [name, ...(name === 'bearer' ? ['hostile-tokens', 'token-provider'] : [])].map(
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
        'catalog-check': ['catalog-check'],
        connect: ['as-owner', 'migrate'],
        'catalog-rules': ['catalog-check'],
        'describe-schema': ['describe-schema'],
        follow: ['follow-slots', 'follow'],
        idempotency: ['idempotency'],
        'login-passwords': ['login-passwords'],
        migrate: ['migrate'],
        pool: ['pool', 'pooled-session-state', 'tenant-transaction'],
        query: ['pipelined-statements', 'tenant-transaction'],
        retries: ['retries'],
        roles: ['roles', 'assertion'],
        session: ['session', 'pipelined-statements', 'pooled-session-state', 'tenant-transaction'],
        'sql-error': ['sql-error'],
        'tenant-transaction': ['outages', 'pool', 'assertion', 'tenant-transaction', 'follow'],
      }).map(([file, tests]) => [`packages/tenant-db/src/${file}.ts`, tests.map(tenantDb)]),
    ),
  },
]
