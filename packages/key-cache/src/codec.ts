import { timingSafeEqual } from 'node:crypto'
import {
  type KeyRecord,
  type Revocation,
  keyRecordSchema,
  recordTtlMs,
  redisRecordKey,
  revocationSchema,
} from '@postern/contracts/internal'
import { type KeyRing, createMac } from '@postern/signed-context'

export interface EncodedRecord {
  readonly key: string
  readonly value: string
  readonly endsAt: number
}

/**
 * Redis is not trusted: every text has an HMAC-SHA-256 of the keys service and the gateways. An invalid MAC counts as
 * missing.
 */
export interface CacheCodec {
  encodeRecord(record: KeyRecord): EncodedRecord
  /** Undefined if the text is not the hash's authentic record. */
  decodeRecord(hash: string, text: string): KeyRecord | undefined
  encodeMessage(revocation: Revocation): string
  /** Undefined if the text is not authentic. */
  decodeMessage(text: string): Revocation | undefined
}

/** A record with a hundred of the longest addresses has about 6 KiB. */
const maxCharacters = 32_768

/** `<order>|<secret id>.<mac>|<JSON>`, without the order for messages. The MAC covers purpose, order and JSON. */
const recordPattern = /^(\d{1,16}\.\d{1,16}\.\d{1,16})\|([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{43})\|(\{.*\})$/s
const messagePattern = /^([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{43})\|(\{.*\})$/s

const recordPurpose = 'postern cache record 1'
const messagePurpose = 'postern cache message 1'

/** Also accepts the previous secret. */
export function createCacheCodec(ring: KeyRing): CacheCodec {
  const keys = [ring.current, ring.previous].flatMap((key) =>
    key === undefined ? [] : { id: key.id, mac: createMac(key.secret) },
  )
  const current = createMac(ring.current.secret)

  // Only the last part can contain a line feed.
  function seal(...parts: readonly string[]): string {
    return `${ring.current.id}.${current.base64url(parts.join('\n'))}`
  }

  function isSealed(id: string, mac: string, ...parts: readonly string[]): boolean {
    const key = keys.find((candidate) => candidate.id === id)
    if (key === undefined) return false
    // As text, because base64url ignores bits of the last character.
    const given = Buffer.from(mac)
    const expected = Buffer.from(key.mac.base64url(parts.join('\n')))
    return given.length === expected.length && timingSafeEqual(given, expected)
  }

  return {
    encodeRecord(record) {
      const order = orderOf(record)
      const json = JSON.stringify(record)
      return {
        key: redisRecordKey(record.hash),
        value: `${order}|${seal(recordPurpose, order, json)}|${json}`,
        endsAt: record.readAt + recordTtlMs,
      }
    },

    decodeRecord(hash, text) {
      if (text.length > maxCharacters) return undefined
      const [, order = '', id = '', mac = '', json = ''] = recordPattern.exec(text) ?? []
      if (!isSealed(id, mac, recordPurpose, order, json)) return undefined
      const record = keyRecordSchema.safeParse(JSON.parse(json))
      // An attacker may have moved another key's record here.
      return record.success && record.data.hash === hash ? record.data : undefined
    },

    encodeMessage(revocation) {
      const json = JSON.stringify(revocation)
      return `${seal(messagePurpose, json)}|${json}`
    },

    decodeMessage(text) {
      if (text.length > maxCharacters) return undefined
      const [, id = '', mac = '', json = ''] = messagePattern.exec(text) ?? []
      if (!isSealed(id, mac, messagePurpose, json)) return undefined
      const revocation = revocationSchema.safeParse(JSON.parse(json))
      return revocation.success ? revocation.data : undefined
    },
  }
}

function orderOf(record: KeyRecord): string {
  return `${record.version}.${record.tenantVersion}.${record.readAt}`
}
