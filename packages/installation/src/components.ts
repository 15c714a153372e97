import type { RingName } from './secrets.ts'

export const componentNames = [
  'gateway',
  'console',
  'keys',
  'findings',
  'universe',
  'evidence',
  'sync',
  'migrate',
  'operator',
  'postgres',
  'pgbouncer',
  'redis',
  'store',
] as const
export type ComponentName = (typeof componentNames)[number]

const rings: Readonly<Partial<Record<ComponentName, readonly RingName[]>>> = {
  gateway: [
    'POSTERN_SIGNING_KEYS',
    'POSTERN_SIGNING_FINDINGS',
    'POSTERN_SIGNING_UNIVERSE',
    'POSTERN_SIGNING_EVIDENCE',
    'POSTERN_SIGNING_SYNC',
    'POSTERN_ASSERTION_KEYS',
    'POSTERN_INTERNAL_SIGNING_KEYS',
    'POSTERN_CACHE_SIGNING_KEYS',
  ],
  console: ['POSTERN_CONSOLE_SESSION'],
  keys: [
    'POSTERN_SIGNING_KEYS',
    'POSTERN_SIGNING_OPERATOR',
    'POSTERN_INTERNAL_SIGNING_KEYS',
    'POSTERN_CACHE_SIGNING_KEYS',
  ],
  findings: [
    'POSTERN_SIGNING_FINDINGS',
    'POSTERN_SIGNING_FINDINGS_UNIVERSE',
    'POSTERN_SIGNING_FINDINGS_EVIDENCE',
    'POSTERN_SIGNING_UNIVERSE_FINDINGS',
  ],
  universe: [
    'POSTERN_SIGNING_UNIVERSE',
    'POSTERN_SIGNING_SYNC_UNIVERSE',
    'POSTERN_SIGNING_EVIDENCE_UNIVERSE',
    'POSTERN_SIGNING_FINDINGS_UNIVERSE',
    'POSTERN_SIGNING_UNIVERSE_FINDINGS',
  ],
  evidence: ['POSTERN_SIGNING_EVIDENCE', 'POSTERN_SIGNING_EVIDENCE_UNIVERSE', 'POSTERN_SIGNING_FINDINGS_EVIDENCE'],
  sync: ['POSTERN_SIGNING_SYNC', 'POSTERN_SIGNING_SYNC_UNIVERSE', 'POSTERN_SIGNING_OPERATOR', 'POSTERN_SYNC_SECRETS'],
  migrate: ['POSTERN_ASSERTION_KEYS'],
  operator: ['POSTERN_SIGNING_OPERATOR', 'POSTERN_ASSERTION_KEYS'],
}

const derived: Readonly<Record<ComponentName, readonly string[]>> = {
  gateway: ['POSTERN_REDIS_URL'],
  console: ['POSTERN_REDIS_URL', 'POSTERN_OIDC_CLIENT_SECRET'],
  keys: ['POSTERN_DATABASE_URL', 'POSTERN_REDIS_URL'],
  findings: ['POSTERN_DATABASE_URL', 'POSTERN_CHECKPOINT_KEY'],
  universe: ['POSTERN_DATABASE_URL'],
  // For the store of the compose file. For another bucket, add files with other names.
  evidence: [
    'POSTERN_DATABASE_URL',
    'POSTERN_RECEIPT_KEY',
    'POSTERN_STORE_ACCESS_KEY_ID',
    'POSTERN_STORE_SECRET_ACCESS_KEY',
  ],
  sync: ['POSTERN_DATABASE_URL'],
  migrate: [
    'POSTERN_SUPERUSER_URL',
    'POSTERN_MIGRATOR_URL',
    'POSTERN_PASSWORD_KEYS',
    'POSTERN_PASSWORD_FINDINGS',
    'POSTERN_PASSWORD_UNIVERSE',
    'POSTERN_PASSWORD_EVIDENCE',
    'POSTERN_PASSWORD_SYNC',
  ],
  operator: [],
  postgres: ['POSTGRES_PASSWORD'],
  pgbouncer: ['userlist.txt'],
  redis: ['redis.conf', 'users.acl'],
  store: ['store-users'],
}

export function ringsOf(component: ComponentName): readonly RingName[] {
  return rings[component] ?? []
}

export function filesOf(component: ComponentName): readonly string[] {
  return [...ringsOf(component), ...derived[component]]
}
