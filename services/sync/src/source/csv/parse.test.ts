import { Readable, pipeline } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { expect, test } from 'vitest'
import { SourceFailure } from '../failure.ts'
import { parseRecords } from './parse.ts'

const pieces = ['a', 'bb', ',', '"', '""', '\n', '\r\n', '\r', ';', '"x,\ny"', ',"q"', '\n"', '"\n', 'é']

/** The same texts each time: numbers of a linear congruential generator. */
function* texts(count: number): Generator<string> {
  let state = 1
  const next = (below: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) % below
  }
  for (let made = 0; made < count; made += 1) {
    yield Array.from({ length: 1 + next(14) }, () => pieces[next(pieces.length)] ?? '').join('')
  }
}

async function read(records: AsyncIterable<readonly string[][]>): Promise<unknown> {
  const all: string[][] = []
  try {
    for await (const some of records) all.push(...some)
  } catch (error) {
    if (error instanceof SourceFailure) return error.row
    if (error instanceof CsvError) return Number(error['records']) + 1
    throw error
  }
  return all
}

async function* byTheParserAlone(text: string): AsyncGenerator<string[][]> {
  const parser = parse({ record_delimiter: ['\r\n', '\n', '\r'], relax_column_count: true })
  pipeline(Readable.from([text], { objectMode: false }), parser, () => undefined)
  for await (const record of parser) yield [record]
}

async function* inPieces(text: string, size: number): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size)
}

test('what is cut by hand is what the parser reads, in whatever pieces it comes', async () => {
  const options = { delimiter: ',', lenientQuotes: false, maxColumns: 100 }
  let tried = 0
  for (const text of texts(400)) {
    const expected = await read(byTheParserAlone(text))
    for (const size of [1, 3, text.length]) {
      expect([text, size, await read(parseRecords(inPieces(text, size), options))]).toEqual([text, size, expected])
    }
    tried += Array.isArray(expected) ? 1 : 0
  }
  expect(tried).toBeGreaterThan(50)
})
