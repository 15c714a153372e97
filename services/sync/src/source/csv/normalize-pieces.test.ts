import { expect, test } from 'vitest'
import { normalizePieces } from './normalize-pieces.ts'

async function normalized(text: string, length: number): Promise<string> {
  const pieces = Array.from({ length: Math.ceil(text.length / length) }, (_none, at) =>
    text.slice(at * length, (at + 1) * length),
  )
  let whole = ''
  for await (const piece of normalizePieces(
    (async function* () {
      yield* pieces
    })(),
  ))
    whole += piece
  return whole
}

test.each(['Mu\u0308nchen,Ko\u0308ln\n', '\u1112\u1161\u11ab\u1112\u1161\u11ab', 'e\u0323\u0301,\u0301x', 'plain', ''])(
  'a text is composed wherever its pieces end: %j',
  async (text) => {
    for (let length = 1; length <= text.length; length += 1) {
      expect(await normalized(text, length)).toBe(text.normalize('NFC'))
    }
    expect(await normalized(text, 100)).toBe(text.normalize('NFC'))
  },
)
