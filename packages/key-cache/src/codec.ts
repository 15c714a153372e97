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

/** A record as it lies in Redis: what to store, under which key, until when. */
export interface EncodedRecord {
  readonly key: string
  readonly value: string
  /** Milliseconds since the epoch, for PXAT: the moment of reading plus `recordTtlMs`. */
  readonly endsAt: number
}

/**
 * Writes and reads what Redis holds and carries. Redis is not trusted: everything bears an HMAC-SHA-256 under a secret that
 * only the keys service and the gateways have, made with the current secret and accepted under the current or the
 * previous one. What does not verify reads as absent.
 */
export interface CacheCodec {
  encodeRecord(record: KeyRecord): EncodedRecord
  /** Gives the record of the hash, or undefined when the text is no record of this very hash made by us. */
  decodeRecord(hash: string, text: string): KeyRecord | undefined
  encodeMessage(revocation: Revocation): string
  /** Gives the revocation, or undefined when the text is no message made by us. */
  decodeMessage(text: string): Revocation | undefined
}

/** A record with a hundred addresses of the longest form takes about 6 KiB; nothing longer is looked at. */
const maxCharacters = 32_768

/** `<order>|<secret id>.<mac>|<JSON>`; a message has no order. The MAC covers purpose, order and JSON. */
const recordPattern = /^(\d{1,16}\.\d{1,16}\.\d{1,16})\|([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{43})\|(\{.*\})$/s
const messagePattern = /^([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{43})\|(\{.*\})$/s

// The purpose is part of what is authenticated, so a record can never be replayed as a message or the reverse.
const recordPurpose = 'postern cache record 1'
const messagePurpose = 'postern cache message 1'

/** Makes the codec for a ring of secrets. */
export function createCacheCodec(ring: KeyRing): CacheCodec {
  const keys = [ring.current, ring.previous].flatMap((key) =>
    key === undefined ? [] : { id: key.id, mac: createMac(key.secret) },
  )
  const current = createMac(ring.current.secret)

  // No part but the last may hold a line feed (a purpose is constant, an order is digits), so parts cannot run together.
  function seal(...parts: readonly string[]): string {
    return `${ring.current.id}.${current.base64url(parts.join('\n'))}`
  }

  function isSealed(id: string, mac: string, ...parts: readonly string[]): boolean {
    const key = keys.find((candidate) => candidate.id === id)
    if (key === undefined) return false
    // As texts, so that a MAC has one spelling: base64url leaves bits of its last character unused.
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
      // A true record of another key, moved under this key's name, must not speak for it.
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
