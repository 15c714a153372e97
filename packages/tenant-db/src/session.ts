import { channel } from 'node:diagnostics_channel'
import type { PoolClient, QueryResult, QueryResultRow } from 'pg'
import { DatabaseError } from 'pg'
import { type Excess, type SentQuery, bounded, queryOf, send, sendTogether } from './batch.ts'
import { destroy, isAltered, whyLost } from './pool.ts'
import { DatabaseTimeout, DatabaseUnavailable, ResultTooLarge, sqlError } from './sql-error.ts'

/** A statement and its parameters. With a name it is prepared once a connection; a name always has the same text. */
export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
  readonly name?: string
  /**
   * Whether a plan that fits all values is as good as one for each. Left to itself PostgreSQL plans a list behind a cursor
   * anew for each request, since it takes a cursor that it does not know for far away: for a short page that is most of the
   * work. Not for conditions that leave themselves out, as in `$1 is null or …`.
   */
  readonly plannedOnce?: boolean
  /**
   * How many bytes its rows may have together; of more it is told with ResultTooLarge, and what is behind is let go as it comes. For
   * lists whose rows are as long as tenants write them: a page of a thousand may be larger than the memory.
   */
  readonly maxBytes?: number
}

/** Counts the bytes of rows that a request holds until its answer has been read. */
export interface RowBudget {
  /** Whether so many more bytes may be held. */
  readonly reserve: (bytes: number) => boolean
  /** The error of a statement whose rows may not be held. */
  refusal(): Error
}

/** The open transaction. It ends with the function that it was given to; a statement issued later rejects. */
export interface Tx {
  /** The rows. bigint, numeric and date are text, timestamptz is a Date. */
  query<Row extends QueryResultRow>(statement: Statement): Promise<Row[]>
  /** The number of rows that were inserted, changed or deleted. */
  execute(statement: Statement): Promise<number>
}

/**
 * Where each statement is announced to whoever traces: its text and name, never its parameters. A listener may set `ended`.
 * While nobody listens it costs one look at a field.
 */
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

// Transaction-local: it ends with the transaction, also behind a pooler that gives each transaction another connection.
const setAssertion = { name: 'postern_set_assertion', text: "select set_config('postern.assertion', $1, true)" }
// As `planOnce`, in the same statement: each one more is answered by itself.
const setAssertionAndPlanOnce = {
  name: 'postern_set_assertion_plan_once',
  text: "select set_config('postern.assertion', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true)",
}
const planOnce = prepared('postern_plan_once', 'set local plan_cache_mode = force_generic_plan')
const planAsUsual = prepared('postern_plan_as_usual', 'set local plan_cache_mode = auto')

/**
 * The commit of its transaction waits for no disk and no standby. For what may be lost in a crash together with all that was
 * committed later: a later commit that waits also waits for this one.
 */
export const commitAsynchronously: Statement = {
  name: 'postern_set_asynchronous_commit',
  text: 'set local synchronous_commit = off',
  values: [],
}

const commit = prepared('postern_commit', 'commit')
// Not prepared: whatever else is wrong, this ends it.
const rollback = { text: 'rollback' }

/** How a transaction begins. */
export const begins = {
  // One snapshot for every statement. A read-only transaction never fails for being repeatable.
  read: prepared('postern_begin_read', 'begin isolation level repeatable read read only'),
  write: prepared('postern_begin_write', 'begin isolation level read committed read write'),
} as const

function prepared(name: string, text: string): SentStatement {
  return { name, text, values: [] }
}

// in_failed_sql_transaction: the statement failed only because one before it had.
const consequence = '25P02'

// After these a connection is as good as before, once the transaction is rolled back: the data or the tenant was at
// fault. After any other (a plan that no longer fits, a lost prepared statement, a sick server) it is not used again.
const ordinaryStates = new Set([consequence, '28000', '42501', '55000', '55P03', '57014', 'P0001'])
const ordinaryClasses = new Set(['22', '23', '40'])

// What statements of ours are answered with. Whoever gets another one carried out (PREPARE, DO, DECLARE, LISTEN …) may have
// left something in the session that would act in the next tenant's request.
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

/** One transaction on a borrowed connection, and what became of it. */
export class Session implements Tx {
  readonly #client: PoolClient
  readonly #timeoutMs: number
  readonly #budget: RowBudget | undefined
  readonly #onReturn: (() => void) | undefined
  #ended = false
  /** To be sent before the first statement. */
  #assertion: string | undefined
  #plansOnce = false
  #odd = false
  #mayHaveLeftSomething = false
  #timedOut = false
  #outstanding = 0
  #timer: NodeJS.Timeout | undefined
  #firstFailure: unknown
  #notBegun: unknown
  #gathered: SentQuery[] | undefined
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

  /** Runs what issues statements; they leave together when it returns. */
  together<T>(issue: () => T): T {
    const { stream } = this.#client.connection
    const gathered: SentQuery[] = []
    this.#gathered = gathered
    this.#issued = 0
    try {
      return issue()
    } finally {
      this.#gathered = undefined
      stream.cork()
      sendTogether(this.#client, gathered)
      stream.uncork()
      this.#waitForAll(this.#issued)
    }
  }

  begin(how: keyof typeof begins, assertion: string): void {
    // Its failure shows in every statement that follows, and in the answer to COMMIT; so does that of the assertion.
    this.#send(begins[how], (error) => (this.#notBegun = error))
    this.#assertion = assertion
  }

  query<Row extends QueryResultRow>(statement: Statement): Promise<Row[]> {
    return this.#issue<Row, Row[]>(statement, (result) => result.rows)
  }

  execute(statement: Statement): Promise<number> {
    return this.#issue(statement, (result) => result.rowCount ?? 0)
  }

  /** Ends the transaction and gives PostgreSQL's word for how: COMMIT, or ROLLBACK also for the commit of a failed one. */
  end(command: 'commit' | 'rollback'): Promise<string> {
    this.#ended = true
    return this.#promise(command === 'commit' ? commit : rollback, (result) => result.command)
  }

  /** Whether a statement failed in a way that PostgreSQL may not know of, so that its COMMIT means nothing. */
  get isOdd(): boolean {
    return this.#odd
  }

  /** As `answer`, but rejects when the connection is lost while `answer` waits for something else. */
  async orLost<T>(answer: Promise<T>): Promise<T> {
    const connectionLost = Promise.withResolvers<never>()
    const reject = (error: Error): void => connectionLost.reject(this.#translate(error))
    this.#client.once('error', reject)
    try {
      return await Promise.race([answer, connectionLost.promise])
    } finally {
      this.#client.removeListener('error', reject)
    }
  }

  /** The failure to report: what came first, where `error` is only its consequence or is not there. */
  reason(error: unknown): unknown {
    // What was sent behind a BEGIN that failed was not in this transaction, so that its own failure says nothing.
    if (this.#notBegun !== undefined && this.#notBegun !== null) return cannotBegin(this.#notBegun)
    const isConsequence = error === undefined || (error instanceof DatabaseError && error.code === consequence)
    if (!isConsequence) return error
    return this.#firstFailure ?? error ?? new DatabaseUnavailable('the transaction was rolled back')
  }

  /** Returns the connection to the pool, or destroys it unless all is known to be well. */
  giveBack(): void {
    this.#ended = true
    const isWell =
      !this.#odd &&
      !this.#mayHaveLeftSomething &&
      !isAltered(this.#client) &&
      this.#outstanding === 0 &&
      whyLost(this.#client) === undefined &&
      this.#client.getTransactionStatus() === 'I'
    if (isWell) this.#client.release()
    else destroy(this.#client)
    this.#onReturn?.()
  }

  #issue<Row extends QueryResultRow, T>(statement: Statement, take: (result: QueryResult<Row>) => T): Promise<T> {
    if (this.#ended) {
      return Promise.reject(
        new Error('a statement was issued after its transaction: in a read, issue all of them at once'),
      )
    }
    this.#issued += 1
    const { text, values, name, plannedOnce = false, maxBytes } = statement
    this.#prepare(plannedOnce)
    // A copy: pg reads them later where it waits for its turn.
    return this.#promise<Row, T>({ text, values: [...values], ...(name === undefined ? {} : { name }) }, take, maxBytes)
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
    take: (result: QueryResult<Row>) => T,
    maxBytes?: number,
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const settle = (error: unknown, result?: QueryResult<Row>): void => {
      if (result === undefined) reject(error)
      else resolve(take(result))
    }
    this.#send<Row>(statement, settle, maxBytes)
    // Whoever has it may be waiting for another one, and its failure must not end the process then.
    promise.catch(ignore)
    return promise
  }

  // HOT PATH: callbacks, because each promise of pg's own costs three more.
  #send<Row extends QueryResultRow>(
    statement: SentStatement,
    settle: (error: unknown, result?: QueryResult<Row>) => void,
    maxBytes?: number,
  ): void {
    this.#startWaiting()
    const announced = statements.hasSubscribers ? announce(statement) : undefined
    let settled = false
    const query = queryOf(statement, (error, answer) => {
      // pg may call twice: for a value that it could not send, and for the answer to what it sent instead.
      if (settled) return
      settled = true
      this.#stopWaiting()
      announced?.ended?.(error)
      const why = excess?.()
      if (error) settle(this.#failed(error))
      else if (why !== undefined) settle(this.#excessError(why, maxBytes))
      else {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- pg's, of the statement whose rows are such
        const result = answer as QueryResult<Row>
        this.#watch(statement, result.command)
        settle(undefined, result)
      }
    })
    const budget = this.#budget
    const excess =
      maxBytes === undefined && budget === undefined ? undefined : bounded(query, maxBytes ?? Infinity, budget?.reserve)
    if (this.#gathered === undefined) send(this.#client, query)
    else this.#gathered.push(query)
  }

  #excessError(excess: Excess, maxBytes: number | undefined): Error {
    if (excess === 'over-share' && this.#budget !== undefined) return this.#budget.refusal()
    return new ResultTooLarge(`the rows are more than ${maxBytes} bytes`)
  }

  #watch({ text }: SentStatement, command: string): void {
    if (ordinaryCommands.has(command)) return
    if (command === 'SET' && text.startsWith('set local ')) return
    this.#mayHaveLeftSomething = true
  }

  #failed(error: unknown): unknown {
    // What a DO block has prepared is not undone when it fails.
    if (error instanceof DatabaseError && error.where?.includes('inline_code_block')) this.#mayHaveLeftSomething = true
    const translated = this.#translate(error)
    this.#firstFailure ??= translated
    if (!isOrdinary(translated)) this.#odd = true
    return translated
  }

  #translate(error: unknown): unknown {
    if (error instanceof DatabaseError) return error
    if (this.#timedOut) return new DatabaseTimeout(`no answer from the database in ${this.#timeoutMs} ms`)
    const why = whyLost(this.#client)
    if (why instanceof DatabaseError) return why
    return why === undefined ? error : new DatabaseUnavailable('the database connection broke', { cause: why })
  }

  #startWaiting(): void {
    this.#outstanding += 1
    this.#timer ??= setTimeout(this.#breakOff, this.#timeoutMs)
  }

  readonly #breakOff = (): void => {
    this.#timedOut = true
    this.#client.connection.stream.destroy()
  }

  /** PostgreSQL may send the first of several answers with the last: each statement has its time, and they have it in all. */
  #waitForAll(count: number): void {
    if (this.#timer === undefined || count < 2) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#breakOff, count * this.#timeoutMs)
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

/** A server that begins no transaction is there for nobody: one that has become a standby refuses to begin one that writes. */
function cannotBegin(error: unknown): unknown {
  if (sqlError(error).kind !== 'other') return error
  return new DatabaseUnavailable('the database begins no transaction', { cause: error })
}

interface SentStatement {
  readonly text: string
  readonly name?: string
  readonly values?: readonly unknown[]
}

function isOrdinary(error: unknown): boolean {
  if (!(error instanceof DatabaseError) || error.code === undefined || error.severity !== 'ERROR') return false
  return ordinaryStates.has(error.code) || ordinaryClasses.has(error.code.slice(0, 2))
}
