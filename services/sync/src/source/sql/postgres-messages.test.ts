import { expect, test } from 'vitest'
import { SourceReadError } from '../source-read-error.ts'
import { createMessageSplitter } from './postgres-messages.ts'

const peer = { host: 'erp.test', maxMessageBytes: 1000 }

function message(kind: string, content: string): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length + 4)
  return Buffer.concat([Buffer.from(kind), length, Buffer.from(content, 'latin1')])
}

function codeOf(bytes: Buffer): string | undefined {
  try {
    createMessageSplitter(peer)(bytes)
  } catch (error) {
    if (error instanceof SourceReadError) return error.code
    throw error
  }
  return undefined
}

test('messages are passed on whole, in order and immediately, for any chunks', () => {
  const messages = [message('Z', 'I'), message('D', 'x'.repeat(900)), message('1', ''), message('E', 'Serror\0\0')]
  const all = Buffer.concat(messages)
  const ends = new Set(messages.map((_, index) => Buffer.concat(messages.slice(0, index + 1)).length))
  for (let size = 1; size <= all.length; size += 1) {
    const wholeOf = createMessageSplitter(peer)
    let given = Buffer.alloc(0)
    for (let at = 0; at < all.length; at += size) {
      given = Buffer.concat([given, wholeOf(all.subarray(at, at + size)) ?? Buffer.alloc(0)])
      expect(given.length).toBe(Math.max(0, ...[...ends].filter((end) => end <= at + size)))
    }
    expect(given.equals(all)).toBe(true)
  }
})

test.each([
  ['of a kind that there is not', Buffer.from('?\0\0\0\u0004'), 'answer_broken'],
  ['shorter than its own length', Buffer.from('Z\0\0\0\u0003'), 'answer_broken'],
  ['of another protocol', Buffer.from('HTTP/1.1 400 Bad Request\r\n'), 'answer_broken'],
  ['of an error without fields', message('E', ''), 'answer_broken'],
  ['of an error whose fields have no end', message('E', 'Serror\0'), 'answer_broken'],
  ['of a notice whose text has no end', message('N', 'Snotice'), 'answer_broken'],
  ['of a sign-in with Kerberos', message('R', '\0\0\0\u0007'), 'not_authorized'],
  ['of a row that is longer than a page', Buffer.from('D\0\0\u0010\0'), 'page_too_large'],
])('no message is passed on %s', (_what, bytes, code) => {
  expect(codeOf(bytes)).toBe(code)
})
