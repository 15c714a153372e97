import { expect } from 'vitest'
import { send } from './http.ts'

/** For what may take long on a busy machine, such as a restart. */
export const patientMs = 30_000

/** Asks every gateway, and returns the distinct outcomes: problem codes, or the status. */
export async function askAll(gateways: readonly string[], token: string): Promise<unknown[]> {
  const headers = { authorization: `Bearer ${token}` }
  const answers = await Promise.all(
    gateways.map(async (gateway) => await send(gateway, '/api/v1/findings', { headers })),
  )
  return [...new Set(answers.map(({ status, code }) => code ?? status))]
}

/** Waits for the outcome at every gateway. A slow machine may delay it, but no request after `boundMs` has another one. */
export async function untilEverywhere(
  gateways: readonly string[],
  token: string,
  outcome: unknown,
  boundMs = 5000,
): Promise<void> {
  const changedAt = performance.now()
  let lastOther = changedAt
  const ask = async (): Promise<unknown[]> => {
    const at = performance.now()
    const outcomes = await askAll(gateways, token)
    if (outcomes.some((each) => each !== outcome)) lastOther = at
    return outcomes
  }
  await expect.poll(ask, { timeout: patientMs, interval: 50 }).toEqual([outcome])
  expect(lastOther - changedAt).toBeLessThan(boundMs)
}
