import { readFile } from 'node:fs/promises'
import { once } from 'node:events'
import type { ManagedProcess } from '@postern/local-stack/testing'
import { WebSocket } from 'undici'
import { z } from 'zod'

export const inspectorVariables = { NODE_OPTIONS: '--inspect=127.0.0.1:0' } as const

export interface HeapMeter {
  leftAfterCollection(): Promise<number>
  close(): void
}

const answerSchema = z.object({ id: z.number(), result: z.unknown().optional() })
const usageSchema = z.object({ usedSize: z.number(), backingStorageSize: z.number().default(0) })

export async function openHeapMeter({ name, logFile }: ManagedProcess): Promise<HeapMeter> {
  const [, address] = /^Debugger listening on (ws:\/\/\S+)$/m.exec(await readFile(logFile, 'utf8')) ?? []
  if (address === undefined) throw new Error(`${name} has no inspector`)
  const socket = new WebSocket(address)
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = answerSchema.parse(JSON.parse(String(data)))
    waiting.get(id)?.resolve(result)
    waiting.delete(id)
  })
  socket.addEventListener('close', () => {
    for (const { reject } of waiting.values()) reject(new Error(`the inspector of ${name} is gone`))
  })
  await once(socket, 'open')
  let asked = 0

  async function ask(method: string): Promise<unknown> {
    asked += 1
    const answer = Promise.withResolvers<unknown>()
    waiting.set(asked, answer)
    socket.send(JSON.stringify({ id: asked, method }))
    return await answer.promise
  }

  return {
    leftAfterCollection: async () => {
      await ask('HeapProfiler.collectGarbage')
      const { usedSize, backingStorageSize } = usageSchema.parse(await ask('Runtime.getHeapUsage'))
      return usedSize + backingStorageSize
    },
    close: () => socket.close(),
  }
}
