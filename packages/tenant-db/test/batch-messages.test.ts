import type { Connection, PoolClient } from 'pg'
import { describe, expect, test } from 'vitest'
import { type SentQuery, queryOf, send, sendTogether } from '../src/batch.ts'

/** What pg hands a connection, by the names of the protocol's messages. */
class FakeConnection {
  readonly sent: string[] = []
  parsedStatements: Record<string, string> = {}
  submittedNamedStatements: Record<string, string> = {}
  readonly stream = {}

  parse({ name, text }: { readonly name?: string; readonly text: string }): void {
    this.sent.push(`Parse ${name ?? text}`)
  }

  bind({ values = [], valueMapper }: { values?: unknown[]; valueMapper: (value: unknown) => unknown }): void {
    this.sent.push(`Bind ${values.map(valueMapper).join(' ')}`.trimEnd())
  }

  describe(): void {
    this.sent.push('Describe')
  }

  execute(): void {
    this.sent.push('Execute')
  }

  query(text: string): void {
    this.sent.push(`Query ${text}`)
  }

  close({ type, name = '' }: { readonly type: string; readonly name?: string }): void {
    this.sent.push(`Close ${type}${name}`)
  }

  sendCopyFail(): void {
    this.sent.push('CopyFail')
  }

  sync(): void {
    this.sent.push('Sync')
  }
}

/** Creates statements that record their outcome, and a client that records what it receives. */
function make(...statements: readonly Parameters<typeof queryOf>[0][]) {
  const connection = new FakeConnection()
  const given: SentQuery[] = []
  const client = { connection, query: (query: SentQuery) => void given.push(query) }
  const ended: unknown[][] = []
  const queries = statements.map((statement) =>
    queryOf(statement, (error, result) => {
      ended.push([statement.text, error ?? rowsOf(result)])
    }),
  )
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the part of a client that is used
  sendTogether(client as unknown as PoolClient, queries)
  return { connection, given, ended, queries, wire: asConnection(connection) }
}

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the part of a connection that is used
const asConnection = (connection: FakeConnection): Connection => connection as unknown as Connection

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what pg gives
const rowsOf = (result: unknown): unknown => (result as { readonly rows: unknown }).rows

/** The one batch that a client was given, submitted. */
function submitted(...statements: readonly Parameters<typeof queryOf>[0][]) {
  const made = make(...statements)
  const [batch] = made.given
  if (batch === undefined || made.given.length > 1) throw new Error('they do not go as one')
  expect(batch.submit(made.wire)).toBeNull()
  return { ...made, batch }
}

const one = { text: 'select 1', values: [1] }
const two = { text: 'select 2', values: [2] }
const three = { text: 'select 3', values: [3] }

const column = { fields: [{ name: 'n', dataTypeID: 23, format: 'text' }] }
const row = (value: number): unknown => ({ fields: [String(value)] })
const complete = { text: 'SELECT 1' }

/** A statement's answer, as far as PostgreSQL sends it before it is ready. */
function answer(batch: SentQuery, connection: Connection, value: number): void {
  batch.handleRowDescription(column)
  batch.handleDataRow(row(value))
  batch.handleCommandComplete(complete, connection)
}

const messagesOf = (n: number): string[] => [`Parse select ${n}`, `Bind ${n}`, 'Describe', 'Execute']

describe('what is sent', () => {
  test('of several statements has one Sync, behind the last', () => {
    const { connection } = submitted(one, two)
    expect(connection.sent).toEqual([...messagesOf(1), ...messagesOf(2), 'Sync'])
  })

  test('goes the same way the next time', () => {
    const { batch, connection, wire } = submitted(one, two)
    const before = connection.sent.length
    batch.submit(wire)
    expect(connection.sent.filter((message) => message === 'Sync')).toHaveLength(2)
    expect(connection.sent).toHaveLength(2 * before)
  })

  test('is a single statement, or empty', () => {
    const { given, queries } = make(one)
    expect(given).toEqual(queries)
    expect(make().given).toEqual([])
  })

  test('goes one by one until the connection has prepared all named statements', () => {
    const named = { ...one, name: 'named' }
    const { given, queries } = make(named, two)
    expect(given).toEqual(queries)
    for (const [parsed, isTogether] of [
      ['select 1', true],
      ['select 0', false],
    ] as const) {
      const connection = Object.assign(new FakeConnection(), { parsedStatements: { named: parsed } })
      const taken: SentQuery[] = []
      const client = { connection, query: (query: SentQuery) => void taken.push(query) }
      const both = [named, two].map((statement) => queryOf(statement, () => undefined))
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the part of a client that is used
      sendTogether(client as unknown as PoolClient, both)
      expect(taken.length === 1).toBe(isTogether)
    }
  })

  test('that is single is given to pg unchanged', () => {
    const given: unknown[] = []
    const query = queryOf(one, () => undefined)
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the part of a client that is used
    send({ query: (sent: unknown) => void given.push(sent) } as unknown as PoolClient, query)
    expect(given).toEqual([query])
  })

  test('is prepared where it has values, also none, so that it is one statement; without values it is a text', () => {
    const connection = new FakeConnection()
    for (const statement of [{ text: 'commit', values: [] }, { text: 'rollback' }, { ...one, name: 'named' }]) {
      queryOf(statement, () => undefined).submit(asConnection(connection))
    }
    expect(connection.sent.filter((message) => /^(?:Parse|Query)/.test(message))).toEqual([
      'Parse commit',
      'Query rollback',
      'Parse named',
    ])
  })
})

describe('an answer', () => {
  test('is that of its own statement, at once; the last is there when PostgreSQL is ready', () => {
    const { batch, ended, wire } = submitted(one, two)
    answer(batch, wire, 1)
    expect(ended).toEqual([['select 1', [{ n: 1 }]]])
    answer(batch, wire, 2)
    expect(ended).toHaveLength(1)
    batch.handleReadyForQuery(wire)
    expect(ended).toEqual([
      ['select 1', [{ n: 1 }]],
      ['select 2', [{ n: 2 }]],
    ])
  })

  test('is read as the connection reads its columns', () => {
    const { ended, given, queries, wire } = make(one, two)
    const types = { getTypeParser: () => () => 'as the connection reads it' }
    const [sent] = given
    if (sent === undefined) throw new Error('nothing was sent')
    // oxlint-disable-next-line no-underscore-dangle -- pg names it so
    sent._result._types = types
    sent.submit(wire)
    answer(sent, wire, 1)
    expect(ended).toEqual([['select 1', [{ n: 'as the connection reads it' }]]])
    // oxlint-disable-next-line no-underscore-dangle -- pg names it so
    expect(queries.map((query) => query._result._types)).toEqual([types, types])
  })

  test('is none to a statement without a text', () => {
    const { batch, ended, wire } = submitted({ text: '', values: [] }, two, { text: '', values: [] })
    batch.handleEmptyQuery(wire)
    expect(ended).toEqual([['', []]])
    answer(batch, wire, 2)
    expect(ended).toHaveLength(2)
    batch.handleEmptyQuery(wire)
    expect(ended).toHaveLength(2)
    batch.handleReadyForQuery(wire)
    expect(ended).toEqual([
      ['', []],
      ['select 2', [{ n: 2 }]],
      ['', []],
    ])
  })

  test('that asks for data gets none', () => {
    const { batch, connection, wire } = submitted(one, two)
    batch.handleCopyInResponse(wire)
    expect(connection.sent.at(-1)).toBe('CopyFail')
  })
})

describe('where a statement fails', () => {
  const failure = new Error('as asked')

  test('those behind it are sent once more, one by one, and the batch takes no further answer', () => {
    const { batch, ended, given, queries, wire } = submitted(one, two, three)
    answer(batch, wire, 1)
    batch.handleError(failure, wire)
    expect(ended).toEqual([
      ['select 1', [{ n: 1 }]],
      ['select 2', failure],
    ])
    expect(given.slice(1)).toEqual(queries.slice(2))
    answer(batch, wire, 3)
    batch.handleCopyInResponse(wire)
    batch.handleReadyForQuery(wire)
    expect(ended).toHaveLength(2)
  })

  test('and it is the first, all fail as it did and none is sent again', () => {
    const { batch, ended, given, wire } = submitted(one, two, three)
    batch.handleError(failure, wire)
    batch.handleReadyForQuery(wire)
    expect(ended).toEqual([
      ['select 1', failure],
      ['select 2', failure],
      ['select 3', failure],
    ])
    expect(given).toHaveLength(1)
  })

  test('and it is the last, there is nothing to send again', () => {
    const { batch, ended, given, wire } = submitted(one, two)
    answer(batch, wire, 1)
    batch.handleError(failure, wire)
    batch.handleReadyForQuery(wire)
    expect(ended.at(-1)).toEqual(['select 2', failure])
    expect([ended.length, given.length]).toEqual([2, 1])
  })
})

describe('a statement that cannot be sent', () => {
  test('for one of its values fails, is taken back, and the others have their own answers', () => {
    const round: { self?: unknown } = {}
    round.self = round
    const { batch, connection, ended, wire } = submitted({ ...one, values: [round] }, two, three)
    expect(connection.sent.slice(0, 2)).toEqual(['Parse select 1', 'Close S'])
    expect(connection.sent.filter((message) => message === 'Sync')).toHaveLength(1)
    expect(ended).toEqual([['select 1', expect.objectContaining({ message: expect.stringContaining('circular') })]])
    answer(batch, wire, 2)
    expect(ended.at(-1)).toEqual(['select 2', [{ n: 2 }]])
  })

  test('and is one of many such leaves nothing to be answered', () => {
    const round: { self?: unknown } = {}
    round.self = round
    const { batch, connection, ended, wire } = submitted({ ...one, values: [round] }, { ...two, values: [round] })
    batch.handleError(new Error('as asked'), wire)
    batch.handleReadyForQuery(wire)
    expect(ended.map(([text]) => text)).toEqual(['select 1', 'select 2'])
    expect(connection.sent.at(-1)).toBe('Sync')
  })

  test('because its name is that of another text fails, and the others have their own answers', async () => {
    const made = make(one, two)
    const [batch] = made.given
    const [, second] = made.queries
    if (batch === undefined || second === undefined) throw new Error('nothing was sent')
    second.name = 'taken'
    made.connection.parsedStatements = { taken: 'select 0' }
    batch.submit(made.wire)
    expect(made.connection.sent).toEqual([...messagesOf(1), 'Sync'])
    await expect.poll(() => made.ended).toHaveLength(1)
    expect(made.ended).toEqual([['select 2', expect.objectContaining({ message: expect.stringContaining('taken') })]])
    answer(batch, made.wire, 1)
    batch.handleReadyForQuery(made.wire)
    expect(made.ended.at(-1)).toEqual(['select 1', [{ n: 1 }]])
  })
})
