import { generateKeyPairSync } from 'node:crypto'
import { ConfigurationError } from '@postern/service-kit'
import { describe, expect, test } from 'vitest'
import { readConfig } from './config.ts'

const pem = (key: ReturnType<typeof generateKeyPairSync>['privateKey']) =>
  key.export({ format: 'pem', type: 'pkcs8' }).toString()
const good = {
  POSTERN_DATABASE_URL: 'postgres://postern_evidence:password@127.0.0.1:5432/postern',
  POSTERN_SIGNING_EVIDENCE: `k1:${'A'.repeat(43)}`,
  POSTERN_SIGNING_EVIDENCE_UNIVERSE: `k2:${'A'.repeat(43)}`,
  POSTERN_SIGNING_FINDINGS_EVIDENCE: `k3:${'A'.repeat(43)}`,
  POSTERN_UNIVERSE_URL: 'http://127.0.0.1:8183',
  POSTERN_BLOB_DIRECTORY: '/var/lib/postern/blobs',
  POSTERN_RECEIPT_KEY: pem(generateKeyPairSync('ed25519').privateKey),
}

function faultsOf(env: Record<string, string>): string {
  try {
    readConfig(env)
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message
    throw error
  }
  throw new Error('the configuration was accepted')
}

describe('the configuration of the evidence service', () => {
  test('lists all missing settings at once', () => {
    const faults = faultsOf({})
    for (const name of Object.keys(good)) expect(faults).toContain(name)
  })

  test.each([
    ['postgres://me:hidden@one:5432,/db', 'must name each host as host or host:port'],
    ['postgres://me:hidden@one,two/db?target_session_attrs=prefer-standby', 'because Postern writes to the database'],
    ['mysql://me:hidden@one/db', 'must be a URL that begins with postgres:// or postgresql://'],
  ])('rejects the database %s without showing its password', (url, message) => {
    const faults = faultsOf({ ...good, POSTERN_DATABASE_URL: url })
    expect(faults).toContain(message)
    expect(faults).not.toContain('hidden')
  })

  test('accepts a database on several servers', () => {
    const url = 'postgresql://me:hidden@one:5432,two:5432/db?target_session_attrs=read-write'
    expect(readConfig({ ...good, POSTERN_DATABASE_URL: url }).database.connectionString).toBe(url)
  })

  test.each([
    ['a key of another kind', pem(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey)],
    ['a public key', generateKeyPairSync('ed25519').publicKey.export({ format: 'pem', type: 'spki' }).toString()],
    ['no key', 'not-a-key-but-perhaps-a-secret'],
  ])('rejects %s for receipts without showing it', (_what, key) => {
    const faults = faultsOf({ ...good, POSTERN_RECEIPT_KEY: key })
    expect(faults).toContain('POSTERN_RECEIPT_KEY: must be an Ed25519 private key')
    for (const line of key.split('\n').filter((part) => part.length > 20)) expect(faults).not.toContain(line)
  })

  test('rejects an age at which an upload could still be recording its bytes', () => {
    const name = 'POSTERN_EVIDENCE_ABANDONED_AFTER_MS'
    expect(faultsOf({ ...good, [name]: '899999' })).toContain(`${name}: must be at least 900000`)
    expect(readConfig({ ...good, [name]: '900000' }).abandonedAfterMs).toBe(900_000)
  })

  test('rejects a limit above that of the contract', () => {
    expect(faultsOf({ ...good, POSTERN_EVIDENCE_MAX_BYTES: '5368709121' })).toContain('POSTERN_EVIDENCE_MAX_BYTES')
  })

  test('has the limits of the contract by default', () => {
    expect(readConfig(good)).toMatchObject({ maxFileBytes: 5_368_709_120, stallMs: 60_000, host: '127.0.0.1' })
  })

  test.each([
    ['tcp://clamav:3310', { host: 'clamav', port: 3310 }],
    ['tcp://[::1]:3310', { host: '::1', port: 3310 }],
    ['unix:///run/clamav/clamd.ctl', { path: '/run/clamav/clamd.ctl' }],
  ])('finds a scanner at %s', (url, address) => {
    expect(readConfig({ ...good, POSTERN_CLAMAV_URL: url }).clamav).toMatchObject({ address })
  })

  test.each(['clamav:3310', 'tcp://clamav', 'tcp://clamav:0', 'http://clamav:3310', 'unix://clamd.ctl'])(
    'refuses a scanner at %j',
    (url) => {
      expect(faultsOf({ ...good, POSTERN_CLAMAV_URL: url })).toContain('POSTERN_CLAMAV_URL')
    },
  )

  test('accepts a list of media types, and rejects invalid ones', () => {
    const types = { POSTERN_EVIDENCE_ALLOWED_TYPES: 'text/*, Application/PDF' }
    expect(readConfig({ ...good, ...types }).allowedTypes).toEqual(['text/*', 'application/pdf'])
    expect(faultsOf({ ...good, POSTERN_EVIDENCE_ALLOWED_TYPES: '*/*' })).toContain('POSTERN_EVIDENCE_ALLOWED_TYPES')
  })
})
