import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { type Block, type Blocks, openBlocks } from './blocks.ts'
import type { Answer, Question } from './thread.ts'

/** Makes SHA-256 digests in a thread of its own, while this one receives. */
export interface Digester {
  /** What is to be hashed is copied into one of these. */
  readonly blocks: Blocks
  /** Begins a digest, and starts the thread where there is none. It ends with `finish` or `forget`, never with neither. */
  begin(): Digest
  /** Ends the thread: digests that are under way fail. The next one starts a new thread. */
  close(): Promise<void>
}

/** Every promise rejects with DigesterGone where the thread has ended since the digest was begun. */
export interface Digest {
  /** Adds the first `length` bytes of a block; resolves when they are no longer needed. Calls count in their order. */
  add(block: Block, length: number): Promise<void>
  /** Lower-case hex, of one block at least. */
  finish(): Promise<string>
  /** Harmless when repeated and after `finish`. */
  forget(): void
}

/** The thread has ended, and what it knew of this digest with it; the cause says why, for the log. */
export class DigesterGone extends Error {}

/** 8 MiB, whoever uploads how much. No upload has more than two at a time, and none while it waits for its sender. */
const blockCount = 16

/** Opens a digester. Its thread starts with the first digest. */
export function openDigester(blocks: Blocks = openBlocks(blockCount)): Digester {
  let thread: Thread | undefined
  let digests = 0
  return {
    blocks,
    begin: () => {
      if (thread === undefined || thread.isGone()) thread = startThread(blocks)
      digests += 1
      return digestIn(thread, digests)
    },
    close: async () => {
      await thread?.end()
    },
  }
}

function digestIn(thread: Thread, digest: number): Digest {
  let isOver = false
  return {
    add: async ({ offset }, length) => void (await thread.ask({ digest, ask: 'add', offset, length })),
    finish: async () => {
      isOver = true
      const hex = await thread.ask({ digest, ask: 'finish' })
      if (hex === undefined) throw new DigesterGone('the thread has given no digest')
      return hex
    },
    forget: () => {
      if (!isOver) thread.tell({ digest, ask: 'forget' })
      isOver = true
    },
  }
}

interface Thread {
  isGone(): boolean
  /** Sends a question and waits for its answer. */
  ask(question: Question): Promise<Answer>
  /** Sends what is not answered. */
  tell(question: Question): void
  end(): Promise<void>
}

function startThread(blocks: Blocks): Thread {
  // Beside this file, as it is or as it was compiled.
  const worker = new Worker(new URL(`./thread${extname(import.meta.url)}`, import.meta.url), {
    name: 'digests',
    workerData: { memory: blocks.memory },
    // It needs none of the settings, and some of them are secrets.
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  })
  worker.unref()
  // The thread answers in the order of asking.
  const waiting: PromiseWithResolvers<Answer>[] = []
  let gone: DigesterGone | undefined
  const fail = (cause: unknown): void => {
    gone ??= new DigesterGone('the thread of digests has ended', { cause })
    for (const { reject } of waiting.splice(0)) reject(gone)
    void worker.terminate()
  }
  worker.on('message', (answer: Answer) => waiting.shift()?.resolve(answer))
  worker.on('messageerror', fail)
  worker.on('error', fail)
  worker.on('exit', (code) => fail(new Error(`exit code ${code}`)))
  return {
    isGone: () => gone !== undefined,
    ask: async (question) => {
      if (gone !== undefined) throw gone
      const answer = Promise.withResolvers<Answer>()
      waiting.push(answer)
      worker.postMessage(question, [])
      return await answer.promise
    },
    tell: (question) => {
      if (gone === undefined) worker.postMessage(question, [])
    },
    end: async () => void (await worker.terminate()),
  }
}
