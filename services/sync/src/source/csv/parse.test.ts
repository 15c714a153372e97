import { Readable, pipeline } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { expect, test } from 'vitest'
import { SourceReadError } from '../source-read-error.ts'
import { type Records, parseRecords } from './parse.ts'

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

async function read(records: AsyncIterable<Pick<Records, 'length' | 'at'>>): Promise<unknown> {
  const all: (readonly string[])[] = []
  try {
    for await (const some of records) {
      for (let index = 0; index < some.length; index += 1) all.push(some.at(index))
    }
  } catch (error) {
    if (error instanceof SourceReadError) return error.row
    if (error instanceof CsvError) return Number(error['records']) + 1
    throw error
  }
  return all
}

async function* byTheParserAlone(text: string): AsyncGenerator<Pick<Records, 'length' | 'at'>> {
  const parser = parse({ record_delimiter: ['\r\n', '\n', '\r'], relax_column_count: true })
  pipeline(Readable.from([text], { objectMode: false }), parser, () => undefined)
  for await (const record of parser) yield { length: 1, at: () => record }
}

async function* inPieces(text: string, size: number): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size)
}

test('lines that are split directly equal those of the parser, for any chunks', async () => {
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

test('equal texts give equal records, also for a last line without a line end', async () => {
  const options = { delimiter: ',', lenientQuotes: false, maxColumns: 100 }
  const textsOf = async (text: string): Promise<(string | undefined)[]> => {
    const found: (string | undefined)[] = []
    for await (const { length, texts: cut } of parseRecords(inPieces(text, 5), options)) {
      for (let index = 0; index < length; index += 1) found.push(cut?.[index])
    }
    return found
  }
  const records = ['a,b', '"x,\ny",c', '', 'd,"e ""f"""', 'g']
  for (const end of ['\n', '\r\n', '\r']) {
    expect(await textsOf(records.join(end))).toEqual(records)
    expect(await textsOf(records.map((record) => `${record}${end}`).join(''))).toEqual(records)
  }
})
