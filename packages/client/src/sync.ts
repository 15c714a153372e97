import {
  type CallOptions,
  type Connection,
  type RequestBody,
  fillPath,
  idempotencyHeader,
  queryOf,
  readJson,
} from './connection.ts'
import { type AnswerOf, type BodyOf, type ContractOf, type ItemOf, type QueryOf, operations } from './operations.ts'
import { type Pages, pagesOf } from './pages.ts'
import { wait, retryDelayMs } from './retry.ts'
import {
  type Changeable,
  type Readable,
  type Target,
  addressOf,
  changeableMethods,
  readableMethods,
} from './resource.ts'

type Result = AnswerOf<'pushEntities'>
type Run = AnswerOf<'getRun'>

/** `content` is the file for a connector whose source is uploaded. */
export interface RunInput extends CallOptions {
  readonly query?: QueryOf<'startRun'>
  readonly content?: RequestBody
  readonly contentType?: string
}

export interface Connectors
  extends
    Readable<AnswerOf<'getConnector'>>,
    Changeable<AnswerOf<'getConnector'>, BodyOf<'updateConnector'>, AnswerOf<'updateConnector'>> {
  list(query?: QueryOf<'listConnectors'>, options?: CallOptions): Pages<ItemOf<'listConnectors'>>
  create(connector: BodyOf<'createConnector'>, options?: CallOptions): Promise<AnswerOf<'createConnector'>>
  /** Retires the connector. Its runs remain. */
  remove(target: Target, options?: CallOptions): Promise<void>
  /** The resources that the source no longer has. */
  missing(target: Target, query?: QueryOf<'listMissing'>, options?: CallOptions): Pages<ItemOf<'listMissing'>>
  /** Returns what up to 20 rows would become. Stores nothing. */
  test(target: Target, input?: Omit<RunInput, 'query'>): Promise<AnswerOf<'testConnector'>>
  /** Starts a run. Follow it with `runs.follow`. */
  run(target: Target, input?: RunInput): Promise<Run>
}

export interface FollowOptions extends CallOptions {
  /** How long the API may be unreachable, in milliseconds. Default 120,000; 0 means one attempt. */
  readonly patienceMs?: number
}

export interface Runs extends Readable<Run> {
  list(query?: QueryOf<'listRuns'>, options?: CallOptions): Pages<ItemOf<'listRuns'>>
  changes(target: Target, query?: QueryOf<'listRunChanges'>, options?: CallOptions): Pages<ItemOf<'listRunChanges'>>
  errors(target: Target, query?: QueryOf<'listRunErrors'>, options?: CallOptions): Pages<ItemOf<'listRunErrors'>>
  /** Yields the run at every change until it ends or needs approval. Reconnects if necessary. */
  follow(target: Target, options?: FollowOptions): AsyncGenerator<Run>
  approve(target: Target, body: BodyOf<'approveRun'>, options?: CallOptions): Promise<Run>
  cancel(target: Target, options?: CallOptions): Promise<Run>
  /** Starts a run that undoes what this run applied. */
  rollback(target: Target, body?: BodyOf<'rollbackRun'>, options?: CallOptions): Promise<Run>
}

/** Needs `admin:sync`. A push applies all rows or none. */
export interface Sync {
  readonly connectors: Connectors
  readonly runs: Runs
  pushEntities(rows: BodyOf<'pushEntities'>, options?: CallOptions): Promise<Result>
  pushOrgStructure(key: string, hierarchy: BodyOf<'pushOrgStructure'>, options?: CallOptions): Promise<Result>
  pushTestProcedures(rows: BodyOf<'pushTestProcedures'>, options?: CallOptions): Promise<Result>
  pushPeople(rows: BodyOf<'pushPeople'>, options?: CallOptions): Promise<Result>
  /** Pushes lines of JSON (NDJSON), which only the API validates. A stream is never retried. */
  pushLines(rows: keyof typeof operationsOfLines, lines: RequestBody, options?: CallOptions): Promise<Result>
}

const operationsOfLines = {
  entities: 'pushEntities',
  test_procedures: 'pushTestProcedures',
  people: 'pushPeople',
} as const
const linesMediaType = 'application/x-ndjson' satisfies ContractOf<'pushEntities'>['bodyMediaTypes'][number]

export function openSync(connection: Connection): Sync {
  return {
    connectors: openConnectors(connection),
    runs: openRuns(connection),
    pushEntities: async (body, options = {}) => await connection.call('pushEntities', { body, ...options }),
    pushOrgStructure: async (key, body, options = {}) =>
      await connection.call('pushOrgStructure', { params: { key }, body, ...options }),
    pushTestProcedures: async (body, options = {}) => await connection.call('pushTestProcedures', { body, ...options }),
    pushPeople: async (body, options = {}) => await connection.call('pushPeople', { body, ...options }),
    pushLines: async (rows, body, { signal } = {}) => {
      const [method, target] = operations[operationsOfLines[rows]]
      const headers = { 'content-type': linesMediaType, ...idempotencyHeader(method) }
      return readJson<Result>(await connection.receive({ method, target, headers, body, signal, isLong: true }))
    },
  }
}

function openConnectors(connection: Connection): Connectors {
  const sendFile = async <T>(path: string, target: Target, { query, content, contentType, signal }: RunInput) => {
    const answer = await connection.receive({
      method: 'POST',
      target: `${fillPath(path, { id: addressOf(target) })}${queryOf(query ?? {})}`,
      headers: {
        ...(content === undefined ? {} : { 'content-type': contentType ?? 'text/csv' }),
        ...idempotencyHeader('POST'),
      },
      ...(content === undefined ? {} : { body: content }),
      signal,
      isLong: content !== undefined,
    })
    return readJson<T>(answer)
  }
  return {
    ...readableMethods(connection, 'getConnector'),
    ...changeableMethods(connection, 'getConnector', 'updateConnector'),
    list: (query, options = {}) => pagesOf(connection, 'listConnectors', {}, query, options),
    create: async (body, options = {}) => await connection.call('createConnector', { body, ...options }),
    remove: async (target, options = {}) => {
      await connection.call('deleteConnector', { params: { id: addressOf(target) }, ...options })
    },
    missing: (target, query, options = {}) =>
      pagesOf(connection, 'listMissing', { id: addressOf(target) }, query, options),
    test: async (target, input = {}) => await sendFile(operations.testConnector[1], target, input),
    run: async (target, input = {}) => await sendFile(operations.startRun[1], target, input),
  }
}

function openRuns(connection: Connection): Runs {
  return {
    ...readableMethods(connection, 'getRun'),
    list: (query, options = {}) => pagesOf(connection, 'listRuns', {}, query, options),
    changes: (target, query, options = {}) =>
      pagesOf(connection, 'listRunChanges', { id: addressOf(target) }, query, options),
    errors: (target, query, options = {}) =>
      pagesOf(connection, 'listRunErrors', { id: addressOf(target) }, query, options),
    follow: (target, options = {}) => follow(connection, addressOf(target), options),
    approve: async (target, body, options = {}) =>
      await connection.call('approveRun', { ...paramsOf(target), body, ...options }),
    cancel: async (target, options = {}) => await connection.call('cancelRun', { ...paramsOf(target), ...options }),
    rollback: async (target, body, options = {}) =>
      await connection.call('rollbackRun', {
        ...paramsOf(target),
        ...(body === undefined ? {} : { body }),
        ...options,
      }),
  }
}

const maxWaitMs = 2_000
const defaultPatienceMs = 120_000
const maxSilentStreams = 5

/** Streams begin with the current run. A restarting gateway refuses connections for a while. */
async function* follow(
  connection: Connection,
  id: string,
  { signal, patienceMs = defaultPatienceMs }: FollowOptions,
): AsyncGenerator<Run> {
  for (let silentStreams = 0; ;) {
    const answer = await connection.send({
      method: 'GET',
      target: fillPath(operations.followRun[1], { id }),
      headers: { accept: 'text/event-stream' },
      signal,
      isLong: true,
      retryUntilMs: performance.now() + patienceMs,
    })
    let failure: unknown = new TypeError('the stream of events ended without an event')
    try {
      for await (const { event, data } of eventsOf(answer)) {
        if (event === 'end') return
        const run: Run | undefined = event === 'run' ? JSON.parse(data) : undefined
        silentStreams = 0
        if (run !== undefined) yield run
      }
    } catch (error) {
      signal?.throwIfAborted()
      failure = error
    }
    silentStreams += 1
    if (silentStreams > maxSilentStreams) throw failure
    await wait(retryDelayMs(silentStreams, undefined, maxWaitMs) ?? 0, signal)
  }
}

/** WHATWG HTML §9.2.6: only `event` and `data`. */
async function* eventsOf(answer: Response): AsyncGenerator<{ readonly event: string; readonly data: string }> {
  let text = ''
  for await (const part of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n')
      text = text.slice(end + 2)
      const valueOf = (name: string) =>
        lines.flatMap((line) => (line.startsWith(`${name}: `) ? [line.slice(name.length + 2)] : [])).join('\n')
      yield { event: valueOf('event'), data: valueOf('data') }
    }
  }
}

function paramsOf(target: Target) {
  return { params: { id: addressOf(target) } }
}
