import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type FindingsUnderTest,
  type Principal,
  findingBody,
  newTenant,
  openFinding,
  path,
  startFindings,
} from '../service.ts'

const run = promisify(execFile)
const missing = ['mvn', 'java'].filter((program) => spawnSync(program, ['-version']).error !== undefined)
const skipped = missing.length === 0 ? '' : ` (skipped: no ${missing.join(', no ')} on the PATH)`

describe.skipIf(missing.length > 0)(`a plan of action and milestones${skipped}`, () => {
  let service: FindingsUnderTest
  let folder = ''
  let classpath = ''

  beforeAll(async () => {
    service = await startFindings()
    folder = await mkdtemp(join(tmpdir(), 'postern-oscal-'))
    const file = join(folder, 'classpath')
    const pom = join(import.meta.dirname, 'pom.xml')
    await run('mvn', ['-q', '-B', '-f', pom, 'dependency:build-classpath', `-Dmdep.outputFile=${file}`])
    classpath = (await readFile(file, 'utf8')).trim()
  })

  afterAll(async () => {
    await service.close()
    await rm(folder, { recursive: true })
  })

  /** Returns the errors of a document, one line each, without warnings. */
  async function faultsOf(document: string): Promise<string[]> {
    const file = join(folder, `${crypto.randomUUID()}.json`)
    await writeFile(file, document)
    const program = join(import.meta.dirname, 'ValidatePoam.java')
    const { stdout } = await run('java', ['-cp', classpath, program, file])
    return stdout.split('\n').filter((line) => /^(?:schema|constraint) (?:CRITICAL|ERROR)/.test(line))
  }

  async function exportOf(tenant: Principal): Promise<string> {
    const answer = await service.call(tenant, 'GET', '/api/v1/exports/poam.json?status=draft,open,in_remediation')
    expect(answer.status, answer.text.slice(0, 300)).toBe(200)
    return answer.text
  }

  async function post(tenant: Principal, to: string, body: object): Promise<string> {
    const answer = await service.call(tenant, 'POST', to, { body })
    expect(answer.status, answer.text).toBeLessThan(300)
    return String(Reflect.get(Object(answer.json), 'id'))
  }

  test('without a title is found invalid by the validator', async () => {
    const tenant = newTenant()
    await openFinding(service, tenant)
    const document = await exportOf(tenant)
    const items = document.lastIndexOf('"poam-items"')
    const faults = await faultsOf(document.slice(0, items) + document.slice(items).replace(/"title":"[^"]*",/, ''))
    expect(faults.join('\n')).toContain('required key [title] not found')
  })

  test('with recommendations, action plans, a log and evidence satisfies NIST’s schema and liboscal’s constraints', async () => {
    const tenant = newTenant()
    const finding = await openFinding(service, tenant, {
      identified_date: '2026-01-05',
      target_date: '2026-06-30',
      corrective_action: 'Recertify.',
    })
    const of = `${path}/${finding.id}`
    const recommendation = await post(tenant, `${of}/recommendations`, { text: 'Recertify each quarter.' })
    const owner = { name: 'Bo Ek', email: 'bo.ek@example.com' }
    const plan = { title: 'Build it', owner, due_date: '2026-05-31', recommendation_ids: [recommendation] }
    const planId = await post(tenant, `${of}/action-plans`, plan)
    await post(tenant, `/api/v1/action-plans/${planId}/status`, { to: 'approved' })
    const evidence = { evidence_id: crypto.randomUUID(), sha256: 'ab'.repeat(32), size: 7 }
    for (let n = 0; n < 12; n += 1) await post(tenant, `${of}/log`, { body: `note ${n}`, evidence_refs: [evidence] })
    expect(await faultsOf(await exportOf(tenant))).toEqual([])
  })

  test('with markup, characters that XML cannot hold, unusual days and addresses satisfies them too', async () => {
    const tenant = newTenant()
    const texts = [
      '# of accounts',
      'Total\n-----\n12',
      '1. x\n\n    code\n\n| a | b |\n|---|---|',
      '&copy; &lt;b&gt; <script>alert(1)</script>',
      ' four blanks\n    at the start\t\n',
      '\u001b[0;32mOK\u001b[0m \ufffe \uffff \ud83d\ude00',
      '{{ insert: param, a }} `code` **bold** ~~gone~~ a^b^ [x](javascript:0) "quoted" $1',
      'Umlaute äöü, עברית, \u202e, \u2028',
    ]
    for (const text of texts)
      await post(tenant, path, findingBody({ title: text.replaceAll(/[^ -~]/g, ' ').trim(), condition: text }))
    const days = ['1904-02-29', '1960-02-29', '1996-02-29', '2000-02-29', '2024-02-29', '1999-12-31', '1900-03-01']
    for (const day of days) await post(tenant, path, findingBody({ identified_date: day, target_date: day }))
    const owner = { name: 'Jörg Müller', email: 'joerg.mueller@example.com' }
    const owned = await openFinding(service, tenant, { identified_date: '2026-01-05', target_date: '2026-06-30' })
    await post(tenant, `${path}/${owned.id}/action-plans`, { title: 'Build it', owner, due_date: '2026-05-31' })
    const document = await exportOf(tenant)
    expect(document).toContain('Jörg Müller')
    expect(await faultsOf(document)).toEqual([])
  })
})
