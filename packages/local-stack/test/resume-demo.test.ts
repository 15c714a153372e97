import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { generateDemo } from '../src/demo/generate.ts'
import { readScenarios } from '../src/demo/scenario.ts'
import { completeTestProcedures, pushUniverse } from '../src/demo/write-universe.ts'
import { seedContent } from '../src/demo/seed-content.ts'
import { type TestStack, startTestStack } from '../src/testing/index.ts'

let stack: TestStack
beforeAll(async () => {
  stack = await startTestStack()
})
afterAll(async () => await stack.stop())

test('a start that was interrupted after the test procedures were completed resumes, and they stay completed', async () => {
  const [gateway = ''] = stack.gateways
  const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['*'] })
  const [, small] = readScenarios()
  const { people, universe } = generateDemo(small, { today: new Date() })
  const countCompleted = async (): Promise<string | null> => {
    const target = `${gateway}/api/v1/test-procedures?status=completed&count=true&limit=1`
    const answer = await fetch(target, { headers: { authorization: `ApiKey ${key}` } })
    expect(z.array(z.unknown()).parse(await answer.json())).toHaveLength(1)
    return answer.headers.get('x-total-count')
  }
  await pushUniverse({ gateway, key }, people, universe)
  await completeTestProcedures({ gateway, key }, universe)
  const before = await countCompleted()
  await pushUniverse({ gateway, key }, people, universe)
  expect(await countCompleted()).toBe(before)
  await completeTestProcedures({ gateway, key }, universe)
  expect(await countCompleted()).toBe(before)
})

test('a demo that began before midnight is completed after it, including a risk acceptance that ended on the day before', async () => {
  const [gateway = ''] = stack.gateways
  const [, small] = readScenarios()
  const tenant = await stack.createTenant()
  const { key, id } = await stack.createKey(tenant, { scopes: ['*'] })
  const yesterday = new Date(Date.now() - 86_400_000)
  const data = generateDemo(small, { today: yesterday })
  const ended = yesterday.toISOString().slice(0, 10)
  expect(
    data.findings.flatMap(({ moves }) => moves).filter(({ acceptedUntil }) => acceptedUntil === ended),
  ).not.toEqual([])
  await seedContent(
    {
      gateway,
      databaseUrl: stack.database.url,
      assertionKeys: stack.database.assertionKeys,
      evidence: stack.caller('evidence'),
    },
    { id: tenant.id, key, sender: { id, label: '*' } },
    { findings: small.counts.findings.all, make: () => data },
  )
  const answer = await fetch(`${gateway}/api/v1/findings?count=true&limit=1`, {
    headers: { authorization: `ApiKey ${key}` },
  })
  await answer.text()
  expect(answer.headers.get('x-total-count')).toBe(String(small.counts.findings.all))
})
