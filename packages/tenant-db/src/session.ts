import { channel } from 'node:diagnostics_channel'
import type { PoolClient, QueryResult, QueryResultRow } from 'pg'
import { DatabaseError } from 'pg'
import { destroy, isAltered, getLossError } from './pool.ts'
import { type ExceededLimit, type SentStatement, createLimitedQuery, createQuery } from './query.ts'
import { socketOf } from './servers.ts'
import { DatabaseTimeoutError, DatabaseUnavailableError, ResultTooLargeError, sqlError } from './sql-error.ts'

/** A named statement is prepared once per connection, so a name always has the same text. */
export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
  readonly name?: string
  /** Uses one generic plan for all values, so that pages are planned once. Not for filters such as `$1 is null or …`. */
  readonly plannedOnce?: boolean
  /** Larger results reject with ResultTooLargeError. */
  readonly maxBytes?: number
}

export interface RowBudget {
  readonly reserve: (bytes: number) => boolean
  refusal(): Error
}

/** Ends with its function; later statements reject. */
export interface Tx {
  /** Returns the rows. bigint, numeric and date are text, timestamptz is a Date. */
  query<Row extends QueryResultRow>(statement: Statement): Promise<Row[]>
  execute(statement: Statement): Promise<number>
}

/** For tracing: text and name, never parameters. A listener may set `ended`. */
const statements = channel('postern:statement')

interface StatementMessage {
  readonly text: string
  readonly name: string | undefined
  ended: ((error: unknown) => void) | undefined
}

function announce({ text, name }: SentStatement): StatementMessage {
  const message: StatementMessage = { text, name, ended: undefined }
  statements.publish(message)
  return message
}

// Transaction-local, for a pooler in transaction mode.
const setAssertion = { name: 'postern_set_assertion', text: "select set_config('postern.assertion', $1, true)" }
// One statement, because each costs a response.
const setAssertionAndPlanOnce = {
  name: 'postern_set_assertion_plan_once',
  text: "select set_config('postern.assertion', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true)",
}
const planOnce = toPrepared('postern_plan_once', 'set local plan_cache_mode = force_generic_plan')
const planAsUsual = toPrepared('postern_plan_as_usual', 'set local plan_cache_mode = auto')

/** For data that may be lost in a crash. A later synchronous commit makes it durable. */
export const commitAsynchronously: Statement = {
  name: 'postern_set_asynchronous_commit',
  text: 'set local synchronous_commit = off',
  values: [],
}

const commit = toPrepared('postern_commit', 'commit')
const rollback = { text: 'rollback' }

export const begins = {
  // All statements share one snapshot. Read-only transactions never fail because of repeatable read.
  read: toPrepared('postern_begin_read', 'begin isolation level repeatable read read only'),
  write: toPrepared('postern_begin_write', 'begin isolation level read committed read write'),
} as const

function toPrepared(name: string, text: string): SentStatement {
  return { name, text, values: [] }
}

// in_failed_sql_transaction: an earlier statement failed.
const consequence = '25P02'

// After these errors, a rollback makes the connection usable. After any other error it is closed.
const ordinaryStates = new Set([consequence, '28000', '42501', '55000', '55P03', '57014', 'P0001'])
const ordinaryClasses = new Set(['22', '23', '40'])

// Other commands (PREPARE, DO, DECLARE, LISTEN …) could leave state for the next tenant.
const ordinaryCommands = new Set([
  'BEGIN',
  'COMMIT',
  'ROLLBACK',
  'SAVEPOINT',
  'RELEASE',
  'SELECT',
  'INSERT',
  'UPDATE',
  'DELETE',
  'MERGE',
])

export class Session implements Tx {
  readonly #client: PoolClient
  readonly #timeoutMs: number
  readonly #budget: RowBudget | undefined
  readonly #onReturn: (() => void) | undefined
  #ended = false
  #assertion: string | undefined
  #plansOnce = false
  #hasUnusualError = false
  #mayHaveLeftState = false
  #timedOut = false
  #outstanding = 0
  #timer: NodeJS.Timeout | undefined
  #firstFailure: unknown
  #beginError: unknown
  #issued = 0

  constructor(
    client: PoolClient,
    timeoutMs: number,
    { budget, onReturn }: { readonly budget?: RowBudget | undefined; readonly onReturn?: () => void } = {},
  ) {
    this.#client = client
    this.#timeoutMs = timeoutMs
    this.#budget = budget
    this.#onReturn = onReturn
  }

  /** Sends the statements that `issue` issues in one write, unless the connection uses TLS. */
  pipeline<T>(issue: () => T): T {
    const socket = socketOf(this.#client)
    this.#issued = 0
    socket.cork()
    try {
      return issue()
    } finally {
      socket.uncork()
      this.#waitForAll(this.#issued)
    }
  }

  begin(how: keyof typeof begins, assertion: string): void {
    // A failure appears in every later statement and in the response to COMMIT.
    this.#send(begins[how], (error) => (this.#beginError = error))
    this.#assertion = assertion
  }

  query<Row extends QueryResultRow>(statement: Statement): Promise<Row[]> {
    return this.#issue<Row, Row[]>(statement, (result) => result.rows)
  }

  execute(statement: Statement): Promise<number> {
    return this.#issue(statement, (result) => result.rowCount ?? 0)
  }

  /** Returns COMMIT, or ROLLBACK if the transaction had failed. */
  end(command: 'commit' | 'rollback'): Promise<string> {
    this.#ended = true
    return this.#promise(command === 'commit' ? commit : rollback, (result) => result.command)
  }

  /** PostgreSQL may not know of the error, so a COMMIT could succeed wrongly. */
  get hasUnusualError(): boolean {
    return this.#hasUnusualError
  }

  /** Rejects if the connection is lost while `answer` waits for something else. */
  async rejectIfLost<T>(answer: Promise<T>): Promise<T> {
    const connectionLost = Promise.withResolvers<never>()
    const reject = (error: Error): void => connectionLost.reject(this.#translate(error))
    this.#client.once('error', reject)
    try {
      return await Promise.race([answer, connectionLost.promise])
    } finally {
      this.#client.removeListener('error', reject)
    }
  }

  /** Returns the original failure if `error` is only its consequence. */
  findRootError(error: unknown): unknown {
    // After a failed BEGIN, later failures are meaningless.
    if (this.#beginError !== undefined && this.#beginError !== null) return toBeginError(this.#beginError)
    const isConsequence = error === undefined || (error instanceof DatabaseError && error.code === consequence)
    if (!isConsequence) return error
    return this.#firstFailure ?? error ?? new DatabaseUnavailableError('the transaction was rolled back')
  }

  /** Closes the connection unless its state is known to be good. */
  release(): void {
    this.#ended = true
    const isReusable =
      !this.#hasUnusualError &&
      !this.#mayHaveLeftState &&
      !isAltered(this.#client) &&
      this.#outstanding === 0 &&
      getLossError(this.#client) === undefined &&
      this.#client.getTransactionStatus() === 'I'
    if (isReusable) this.#client.release()
    else destroy(this.#client)
    this.#onReturn?.()
  }

  #issue<Row extends QueryResultRow, T>(statement: Statement, convert: (result: QueryResult<Row>) => T): Promise<T> {
    if (this.#ended) {
      return Promise.reject(
        new Error('a statement was issued after its transaction: in a read, issue all of them at once'),
      )
    }
    this.#issued += 1
    const { text, values, name, plannedOnce = false, maxBytes } = statement
    this.#prepare(plannedOnce)
    return this.#promise<Row, T>({ text, values, ...(name === undefined ? {} : { name }) }, convert, maxBytes)
  }

  #prepare(plansOnce: boolean): void {
    if (this.#assertion !== undefined) {
      this.#send({ ...(plansOnce ? setAssertionAndPlanOnce : setAssertion), values: [this.#assertion] }, ignore)
      this.#assertion = undefined
    } else if (plansOnce !== this.#plansOnce) {
      this.#send(plansOnce ? planOnce : planAsUsual, ignore)
    }
    this.#plansOnce = plansOnce
  }

  #promise<Row extends QueryResultRow, T>(
    statement: SentStatement,
    convert: (result: QueryResult<Row>) => T,
    maxBytes?: number,
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const onResult = (error: unknown, result?: QueryResult<Row>): void => {
      if (result === undefined) reject(error)
      else resolve(convert(result))
    }
    this.#send<Row>(statement, onResult, maxBytes)
    promise.catch(ignore)
    return promise
  }

  // HOT PATH: events are cheaper than pg's promises.
  #send<Row extends QueryResultRow>(
    statement: SentStatement,
    settle: (error: unknown, result?: QueryResult<Row>) => void,
    maxBytes?: number,
  ): void {
    this.#startWaiting()
    const announced = statements.hasSubscribers ? announce(statement) : undefined
    const { query, excess } = this.#createQuery<Row>(statement, maxBytes)
    let settled = false
    // pg may emit twice: for a value that it could not send, and for the response.
    const end = (error: Error | undefined, result?: QueryResult<Row>): void => {
      if (settled) return
      settled = true
      this.#stopWaiting()
      announced?.ended?.(error)
      const why = excess()
      if (error !== undefined) settle(this.#failed(error))
      else if (why !== undefined) settle(this.#excessError(why, maxBytes))
      else {
        this.#recordCommand(statement, result?.command)
        settle(undefined, result)
      }
    }
    query.on('error', end)
    query.on('end', (result) => end(undefined, result))
    this.#client.query(query)
  }

  #createQuery<Row extends QueryResultRow>(statement: SentStatement, maxBytes: number | undefined) {
    const budget = this.#budget
    if (maxBytes === undefined && budget === undefined) {
      return { query: createQuery<Row>(statement), excess: () => undefined }
    }
    return createLimitedQuery<Row>(statement, { maxBytes: maxBytes ?? Infinity, reserve: budget?.reserve })
  }

  #excessError(excess: ExceededLimit, maxBytes: number | undefined): Error {
    if (excess === 'over-share' && this.#budget !== undefined) return this.#budget.refusal()
    return new ResultTooLargeError(`the rows are more than ${maxBytes} bytes`)
  }

  #recordCommand({ text }: SentStatement, command: string | undefined): void {
    if (command !== undefined && ordinaryCommands.has(command)) return
    if (command === 'SET' && text.startsWith('set local ')) return
    this.#mayHaveLeftState = true
  }

  #failed(error: unknown): unknown {
    // Statements prepared by a DO block survive its failure.
    if (error instanceof DatabaseError && error.where?.includes('inline_code_block')) this.#mayHaveLeftState = true
    const translated = this.#translate(error)
    this.#firstFailure ??= translated
    if (!isOrdinary(translated)) this.#hasUnusualError = true
    return translated
  }

  #translate(error: unknown): unknown {
    if (error instanceof DatabaseError) return error
    if (this.#timedOut) return new DatabaseTimeoutError(`no answer from the database in ${this.#timeoutMs} ms`)
    const why = getLossError(this.#client)
    if (why instanceof DatabaseError) return why
    return why === undefined ? error : new DatabaseUnavailableError('the database connection broke', { cause: why })
  }

  #startWaiting(): void {
    this.#outstanding += 1
    this.#timer ??= setTimeout(this.#onTimeout, this.#timeoutMs)
  }

  readonly #onTimeout = (): void => {
    this.#timedOut = true
    socketOf(this.#client).destroy()
  }

  /** PostgreSQL may send all responses at the end, so the time limits add up. */
  #waitForAll(count: number): void {
    if (this.#timer === undefined || count < 2) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#onTimeout, count * this.#timeoutMs)
  }

  #stopWaiting(): void {
    this.#outstanding -= 1
    if (this.#outstanding > 0) {
      this.#timer?.refresh()
      return
    }
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

function ignore(): void {}

/** A standby, for example, rejects transactions that write. */
function toBeginError(error: unknown): unknown {
  if (sqlError(error).kind !== 'other') return error
  return new DatabaseUnavailableError('the database begins no transaction', { cause: error })
}

function isOrdinary(error: unknown): boolean {
  if (!(error instanceof DatabaseError) || error.code === undefined || error.severity !== 'ERROR') return false
  return ordinaryStates.has(error.code) || ordinaryClasses.has(error.code.slice(0, 2))
}
