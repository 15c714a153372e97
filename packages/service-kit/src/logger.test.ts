import { describe, expect, test } from 'vitest'
import { createLogger } from './logger.ts'
import { problem } from './problem.ts'

function lineOf(error: unknown): string {
  const lines: string[] = []
  createLogger({ service: 'any', level: 'info', write: (line) => lines.push(line) }).error({ event: 'x', err: error })
  return lines.join('')
}

function thrownBy(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    return error
  }
}

/** The same error, as if a module of a package had made it. */
function ofLibrary(error: Error, message = error.message): Error {
  error.stack = String(error.stack).replaceAll(import.meta.filename, '/app/node_modules/library/index.js')
  error.message = message
  return error
}

describe('the log of an error never contains sent or stored data', () => {
  const row = 'Kept out of logs'
  /** As pg makes it: the message and the detail quote values. */
  const refused = Object.assign(new Error(`invalid input syntax for type uuid: "${row}"`), {
    name: 'error',
    severity: 'ERROR',
    code: '22P02',
    detail: `Key (title)=(${row}) already exists.`,
    where: `unnamed portal parameter $1 = '${row}'`,
    schema: 'findings',
    table: 'finding',
    constraint: 'finding_external_id_unique',
    routine: 'string_to_uuid',
  })

  test('of PostgreSQL: its state and the names in the schema, and where the statement was issued', () => {
    expect(lineOf(refused)).not.toContain(row)
    const line = lineOf(problem('internal_error', { cause: refused }))
    expect(line).not.toContain(row)
    expect(line).toContain('"code":"22P02"')
    expect(line).toContain('"constraint":"finding_external_id_unique"')
    expect(line).toContain('logger.test.ts')
  })

  test('of a copy of an error, as the queue emits it: its code', () => {
    const line = lineOf({ ...refused, message: refused.message, stack: refused.stack, queue: row })
    expect(line).not.toContain(row)
    expect(line).toContain('"code":"22P02"')
  })

  test.each([
    ['a parser', thrownBy(() => JSON.parse(`"${row}" and more`))],
    ['the engine', thrownBy(() => BigInt(row))],
    ['a message of several lines', new SyntaxError(`one\n    at ${row}\ntwo`)],
    ['a message that looks like a stack', new SyntaxError(`x\n    at /${row}`)],
    ['PostgreSQL that quotes a stack', Object.assign(new Error(`x\n    at /${row}`), { severity: 'ERROR' })],
    ['a library that quotes a stack', ofLibrary(new Error(`x\n    at /${row}`))],
    ['a library whose message was replaced', ofLibrary(new Error(`x\n    at /${row}`), 'y')],
    ['a library that takes its message away', ofLibrary(new Error(`x\n    at /${row}`), '')],
    ['a code that is none', Object.assign(new RangeError('x'), { code: row })],
    ['no error at all', row],
  ])('of %s', (_what, error) => {
    expect(lineOf(error)).not.toContain(row)
    expect(lineOf(new Error('reading failed', { cause: error }))).not.toContain(row)
  })

  test('while its origin is logged, whatever the message was changed to', () => {
    const thrown = new Error('')
    thrown.message = 'one\ntwo'
    for (const error of [thrown, new Error('one\n    at /two'), new Error('a message')]) {
      expect(lineOf(error)).toContain('logger.test.ts')
    }
  })

  test('the log of an error contains the messages of our own code, with their causes', () => {
    const away = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), {
      code: 'ECONNREFUSED',
      syscall: 'connect',
      address: '127.0.0.1',
      port: 1,
    })
    const line = lineOf(new Error('the universe cannot be asked', { cause: away }))
    expect(line).toContain('"message":"the universe cannot be asked"')
    expect(line).toContain('"code":"ECONNREFUSED","syscall":"connect","address":"127.0.0.1","port":1')
    expect(line).not.toContain('Error: the universe')
  })
})
