// The thread of `digester.ts`: it answers what it is asked, in the order of asking. It imports nothing but Node.
import { type Hash, createHash } from 'node:crypto'
import { parentPort, workerData } from 'node:worker_threads'

/** What the thread is asked about the digest of a number. All but `forget` are answered. */
export type Question =
  | {
      readonly digest: number
      readonly ask: 'add'
      readonly offset: number
      readonly length: number
    }
  | { readonly digest: number; readonly ask: 'finish' | 'forget' }

/** Lower-case hex for `finish`, where anything was added. */
export type Answer = string | undefined

const { memory }: { readonly memory: SharedArrayBuffer } = workerData
const hashes = new Map<number, Hash>()

function answer(question: Question): Answer {
  const begun = hashes.get(question.digest)
  switch (question.ask) {
    case 'add': {
      const hash = begun ?? createHash('sha256')
      hashes.set(question.digest, hash.update(Buffer.from(memory, question.offset, question.length)))
      return undefined
    }
    case 'finish':
      hashes.delete(question.digest)
      return begun?.digest('hex')
    case 'forget':
      hashes.delete(question.digest)
      return undefined
    default:
      return question satisfies never
  }
}

parentPort?.on('message', (question: Question) => {
  const said = answer(question)
  if (question.ask !== 'forget') parentPort?.postMessage(said, [])
})
