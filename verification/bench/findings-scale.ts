import { Client as Connection } from 'pg'
import { Client } from 'undici'
import { type FilledRows, fillFindings, preparePrototypes } from './fill-findings.ts'
import { type ListResult, compareWays } from './list.ts'
import { median, round } from './stats.ts'
import type { System } from './system.ts'

export interface FindingsScale {
  readonly few: FilledRows
  readonly many: FilledRows
  readonly fillSeconds: number
  readonly firstOfFew: number
  readonly first: number
  readonly thousandth: number
  readonly deep: number
  readonly large: number
  readonly list: ListResult
}

const pageSize = 100
const deepPage = 1000

export interface ScalePlan {
  readonly tenants: number
  readonly few: number
  readonly findings: number
  readonly measuredTenant: number
  readonly entriesPerFinding: number
  readonly fillSeconds: number
  readonly repeats: number
  readonly listRounds: number
}

export async function measureFindingsScale(system: System, plan: ScalePlan): Promise<FindingsScale> {
  await system.restartGateway({})
  const [origin] = system.stack.gateways
  if (origin === undefined) throw new Error('there is no gateway')
  const { key } = await system.stack.createKey(system.tenant, { scopes: ['read:findings'] })
  const client = new Client(origin)
  const page = async (target: string): Promise<{ next: string | undefined; length: number }> => {
    const { statusCode, headers, body } = await client.request({
      method: 'GET',
      path: target,
      headers: { authorization: `ApiKey ${key}` },
    })
    const found: unknown = await body.json()
    if (statusCode !== 200 || !Array.isArray(found)) throw new Error(`the list was answered with ${statusCode}`)
    return { next: /<([^>]+)>; rel="next"/.exec(String(headers['link'] ?? ''))?.[1], length: found.length }
  }
  const time = async (target: string): Promise<number> => {
    const times: number[] = []
    for (let turn = 0; turn < 2 * plan.repeats; turn += 1) {
      const startedAt = performance.now()
      const { length } = await page(target)
      if (turn >= plan.repeats) times.push(performance.now() - startedAt)
      if (length !== pageSize) throw new Error(`a page has ${length} findings`)
    }
    return median(times)
  }
  const helper = new Connection({ connectionString: system.stack.database.url('superuser') })
  const firstPage = `/api/v1/findings?limit=${pageSize}`
  try {
    await preparePrototypes(system.sql)
    const few = await fillFindings(system.sql, {
      own: system.tenant.id,
      ownFindings: plan.few,
      others: 0,
      perOther: 0,
      entriesPerFinding: plan.entriesPerFinding,
      deadline: Number.POSITIVE_INFINITY,
      behind: 0,
    })
    const firstOfFew = await time(firstPage)

    const startedAt = performance.now()
    const others = plan.tenants - 1
    await helper.connect()
    const many = await fillFindings(
      system.sql,
      {
        own: system.tenant.id,
        behind: plan.few,
        ownFindings: plan.measuredTenant - plan.few,
        others,
        perOther: Math.ceil((plan.findings - plan.measuredTenant) / others),
        entriesPerFinding: plan.entriesPerFinding,
        deadline: startedAt + plan.fillSeconds * 1000,
      },
      helper,
    )
    const fillSeconds = (performance.now() - startedAt) / 1000
    let target = firstPage
    for (let number = 1; number < Math.min(deepPage, Math.floor(plan.measuredTenant / pageSize)); number += 1) {
      const { next } = await page(target)
      if (next === undefined) throw new Error(`there is no page behind page ${number}`)
      target = next
    }
    const times = { first: [] as number[], deep: [] as number[] }
    for (let turn = 0; turn < 3; turn += 1) {
      times.first.push(await time(firstPage))
      times.deep.push(await time(target))
    }
    const [first, thousandth] = [median(times.first), median(times.deep)]
    return {
      few,
      many,
      fillSeconds: round(fillSeconds, 0),
      firstOfFew: round(firstOfFew, 3),
      first: round(first, 3),
      thousandth: round(thousandth, 3),
      deep: round(thousandth / first),
      large: round(first / firstOfFew),
      list: await compareWays(system, origin, { rows: plan.measuredTenant, repeats: 100, rounds: plan.listRounds }),
    }
  } finally {
    await helper.end()
    await client.close()
  }
}
