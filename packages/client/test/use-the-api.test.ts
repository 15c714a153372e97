import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  type PosternClient,
  PosternProblem,
  ReceiptError,
  createPosternClient,
  etagOf,
  reportLeakedKeys,
} from '@postern/client'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { collect } from './collect.ts'
import { type Issuer, startIssuer } from './issuer.ts'

let stack: TestStack
let issuer: Issuer
let tenant: { id: string }
let all: PosternClient

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({ env: { POSTERN_OIDC_ISSUER: issuer.url, POSTERN_OIDC_AUDIENCE: 'postern' } })
  tenant = await stack.createTenant()
  all = await clientWith('*')
  await all.sync.pushPeople([{ external_id: 'p1', name: 'Ada Lund', email: 'ada.lund@x.example' }])
  await all.sync.pushEntities([
    { external_id: 'ops', name: 'Operations', type: 'business_unit' },
    { external_id: 'pay', parent_external_id: 'ops', name: 'Payments', type: 'process' },
  ])
  await all.sync.pushTestProcedures([{ external_id: 'tp', title: 'Access review', entities: ['pay'] }])
})
afterAll(async () => {
  await stack.stop()
  issuer.close()
})

async function clientWith(...scopes: Parameters<TestStack['createKey']>[1]['scopes'][number][]) {
  const { key } = await stack.createKey(tenant, { scopes })
  return createPosternClient({ baseUrl: stack.gateways[0] ?? '', key })
}

const late = { title: 'Access reviews are late', condition: 'As seen.', severity: 'high' } as const

describe('through the gateway', () => {
  test('the error for a missing scope names the scope', async () => {
    const client = await clientWith('read:universe')
    const failure: unknown = await client.findings.get('ref:F-2026-0001').catch((error: unknown) => error)
    expect(failure).toMatchObject({
      status: 403,
      code: 'insufficient_scope',
      problem: { required_scope: 'read:findings' },
    })
    expect(failure instanceof PosternProblem && failure.is('insufficient_scope', 'role_required')).toBe(true)
    expect(await client.whoami()).toMatchObject({ granted: ['read:universe'], tenant: { id: tenant.id } })
  })

  test('findings can be created, read by reference, counted and listed over several pages', async () => {
    const writer = await clientWith('write:findings')
    const references: string[] = []
    for (const severity of ['high', 'low', 'high'] as const) {
      const made = await writer.findings.create({ ...late, engagement_ref: 'A', severity })
      references.push(made.reference)
    }
    const reader = await clientWith('read:findings')
    const [first = ''] = references
    expect(await reader.findings.get(`ref:${first}`)).toMatchObject({ reference: first, severity: 'high' })
    const list = reader.findings.list({ severity: 'high', limit: 1, sort: 'created_at' })
    expect(list.nextUpdatedSince).toBeUndefined()
    expect((await collect(list)).map(({ reference }) => reference)).toEqual([references[0], references[2]])
    expect([await list.count(), (await list.all()).length]).toEqual([2, 2])
    const updated_since = list.nextUpdatedSince ?? ''
    expect(updated_since).toMatch(/Z_\d+$/)
    const { id } = await writer.findings.create({ ...late, severity: 'low' })
    expect((await reader.findings.list({ updated_since }).all()).map((each) => each.id)).toContain(id)
    expect(await reader.findings.summary({ group_by: 'severity' })).toContainEqual(
      expect.objectContaining({ key: 'high', total: 2 }),
    )
  })

  test('a change never overwrites a newer version', async () => {
    const { id } = await all.findings.create(late)
    const read = await all.findings.get(id)
    expect(etagOf(read)).toMatch(/^"/)
    expect(await all.findings.refresh(read)).toBe(read)
    const changed = await all.findings.update(read, { severity: 'low' })
    expect(changed).toMatchObject({ severity: 'low' })
    expect(await all.findings.refresh(read)).toMatchObject({ severity: 'low' })
    await expect(all.findings.update(read, { severity: 'critical' })).rejects.toMatchObject({
      code: 'precondition_failed',
    })
    await expect(all.findings.update(id, { severity: 'critical' })).rejects.toThrow('its entity tag as ifMatch')

    const expanded = await all.findings.get(id, { expand: ['action_plans'] })
    expect(await all.findings.refresh(expanded)).toBe(expanded)
    await all.findings.update(id, { severity: 'medium' }, { ifMatch: etagOf(changed) ?? '' })
    const now = await all.findings.refresh(expanded)
    expect(now).toMatchObject({ severity: 'medium', action_plans: [] })
    expect(await all.findings.refresh(now)).toBe(now)

    let tries = 0
    const edited = await all.findings.edit(id, ({ custom }) => {
      tries += 1
      return { custom: { ...custom, tries } }
    })
    expect(edited).toMatchObject({ custom: { tries: 1 } })
  })

  test('an edit starts again if somebody was faster', async () => {
    const { id } = await all.findings.create(late)
    const other = await all.findings.get(id)
    const writer = await clientWith('read:findings', 'write:findings')
    let tries = 0
    await writer.findings.edit(id, async ({ title }) => {
      tries += 1
      if (tries === 1) await all.findings.update(other, { title: 'Changed meanwhile' })
      return { condition: `Seen with the title ${title}` }
    })
    expect(tries).toBe(2)
    expect(await all.findings.get(id)).toMatchObject({
      title: 'Changed meanwhile',
      condition: 'Seen with the title Changed meanwhile',
    })
  })

  test('a finding gets a recommendation, a plan, an extension, a status and log entries', async () => {
    const { findings, actionPlans, recommendations, remediationLog, entities } = all
    const { id: entity } = await entities.get('ext:pay')
    const { id } = await findings.create({
      ...late,
      criteria: 'a',
      cause: 'b',
      consequence: 'c',
      owner: { email: 'ada.lund@x.example' },
      entity_ids: [entity],
      status: 'open',
    })
    const { id: recommendation } = await findings.recommend(id, { text: 'Do them in time.' })
    await recommendations.edit(recommendation, () => ({ response: 'accepted' }))
    const proposed = await findings.proposePlan(id, {
      title: 'Reminders',
      owner: { name: 'Bo' },
      due_date: '2027-01-31',
      recommendation_ids: [recommendation],
    })
    await actionPlans.changeStatus(proposed, { to: 'approved' })
    await actionPlans.extend(proposed.id, { to: '2027-02-28', reason: 'Holidays', approved_by: { name: 'Ada' } })
    expect(await actionPlans.get(proposed.id)).toMatchObject({ status: 'approved', extension_count: 1 })
    expect(await findings.transitions(id)).toMatchObject({ status: 'in_remediation' })
    await expect(findings.changeStatus(id, { to: 'draft' })).rejects.toMatchObject({ code: 'invalid_transition' })
    await findings.addLogEntry(id, { body: 'Asked the owner.' })
    const log = await findings.log(id).all()
    expect(log.at(-1)).toMatchObject({ kind: 'note', body: 'Asked the owner.' })
    expect(await findings.exportPoam({ entity_id: entity })).toMatchObject({ 'plan-of-action-and-milestones': {} })
    expect(await findings.verifyLog(id)).toMatchObject({ is_intact: true, entries: log.length })
    expect((await findings.recommendations(id).all()).map((each) => each.id)).toEqual([recommendation])
    expect((await findings.actionPlans(id).all()).map((each) => each.id)).toEqual([proposed.id])
    expect((await actionPlans.list({ finding_id: id }).all()).length).toBe(1)
    expect(await remediationLog.checkpoint()).toMatchObject({ jws: expect.stringContaining('.') })
    expect((await remediationLog.list({ limit: 1000 }).all()).length).toBeGreaterThanOrEqual(log.length)
  })

  test('rows can be pushed as lines of JSON, from text or a stream', async () => {
    const { sync, entities } = all
    const lines = ['pay-eu', 'pay-us'].map((key) => JSON.stringify({ external_id: key, name: key, type: 'process' }))
    expect(await sync.pushLines('entities', lines.join('\n'))).toMatchObject({ counts: { created: 2 } })
    const person = new Blob(['{"external_id":"p2","name":"Bo Berg"}\n'])
    expect(await sync.pushLines('people', person.stream())).toMatchObject({ counts: { created: 1 } })
    const broken = sync.pushLines('entities', `${lines[0]}\n{"external_id"`)
    await expect(broken).rejects.toMatchObject({ problem: { status: 400, errors: [{ pointer: '/1/external_id' }] } })
    expect((await entities.get('ext:pay-eu')).name).toBe('pay-eu')
  })

  test('the universe can be read as lists, trees and versions', async () => {
    await all.sync.pushOrgStructure('legal', {
      name: 'Legal',
      kind: 'legal_entity',
      mode: 'full',
      nodes: [
        { node_key: 'a', name: 'A' },
        { node_key: 'b', parent_key: 'a', name: 'B', entities: ['pay'] },
      ],
    })
    expect(await all.entities.get('ext:pay', { expand: 'ancestors' })).toMatchObject({
      ancestors: [{ name: 'Operations' }],
    })
    expect((await all.entities.ancestors('ext:pay')).map(({ name }) => name)).toEqual(['Operations'])
    expect((await all.entities.children('ext:ops').all()).map(({ name }) => name)).toEqual(['Payments'])
    const legal = await all.hierarchies.get('legal')
    expect(await all.hierarchies.refresh(legal)).toMatchObject({ key: 'legal', version: 1 })
    expect(await all.hierarchies.tree('legal')).toMatchObject([{ name: 'A', children: [{ name: 'B' }] }])
    expect((await all.hierarchies.nodes('legal').all()).length).toBe(2)
    const [top] = await all.hierarchies.nodes(legal.id).all()
    expect(await all.hierarchies.node(top?.id ?? '')).toEqual({ ...top, hierarchy: 'legal' })
    expect((await all.hierarchies.diff('legal', { from: 0 }).all()).map(({ change }) => change)).toEqual([
      'added',
      'added',
    ])
    expect((await all.testProcedures.list({ q: 'review' }).all()).length).toBe(1)
    const [ada] = await all.people.list({ email: 'ada.lund@x.example' }).all()
    expect(await all.people.get(ada?.id ?? '')).toEqual(ada)
    expect((await all.sync.connectors.list().all()).length).toBeGreaterThan(0)
    const reader = await clientWith('read:universe')
    expect(await collect(reader.entities.list({ type: ['vendor', 'project'] }))).toEqual([])
  })

  test('the change feed continues where the last reading ended', async () => {
    const { next } = await all.changes.read({ since: 'now' })
    const { id } = await all.findings.create(late)
    const pages = await collect(all.changes.catchUp({ since: next }))
    expect(pages.flatMap(({ changes }) => changes)).toContainEqual(expect.objectContaining({ id, change: 'created' }))
    expect((await all.changes.read({ since: pages.at(-1)?.next ?? '' })).changes).toEqual([])
  })

  test('a file can be uploaded from memory or a stream, and the receipt is for its bytes', async () => {
    const client = await clientWith('write:evidence')
    const bytes = new TextEncoder().encode('Access review of 2026-11: 3 accounts removed.\n')
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    for (const content of [bytes, new Blob([bytes]).stream()]) {
      const receipt = await client.evidence.upload({ content, fileName: 'review ½.txt', contentType: 'text/plain' })
      expect(receipt).toMatchObject({ file_name: 'review ½.txt', size_bytes: bytes.length, sha256 })
      await client.evidence.verify(receipt)
      await expect(client.evidence.verify({ ...receipt, revision: 2 })).rejects.toThrow(ReceiptError)
    }
    const receipts = await client.evidence.uploadAll(
      [
        { content: bytes, fileName: 'a.txt', contentType: 'text/plain' },
        { content: new Blob(['b'], { type: 'text/plain' }), fileName: 'b "2".txt' },
      ],
      { testProcedures: ['ext:tp'], about: { evidence_date: '2026-11-20' } },
    )
    expect(receipts.map(({ file_name }) => file_name)).toEqual(['a.txt', 'b "2".txt'])
    const [first] = receipts
    const revised = await client.evidence.revise(first?.id ?? '', {
      content: bytes,
      fileName: 'a.txt',
      contentType: 'text/plain',
    })
    expect(revised).toMatchObject({ version_of: first?.id, revision: 2 })
    expect(await client.evidence.attach(revised, { test_procedures: ['ext:tp'] })).toMatchObject({ id: revised.id })
    expect((await client.evidence.receiptKeys()).keys.length).toBeGreaterThan(0)
  })

  test('an interrupted resumable upload continues, and its receipt is for all bytes', async () => {
    const content = new Uint8Array(50_000).fill(0x61)
    const file = { content, fileName: 'large.txt', contentType: 'text/plain' }
    const controller = new AbortController()
    let id = ''
    const broken = all.evidence.uploadResumably(file, {
      pieceBytes: 20_000,
      signal: controller.signal,
      onProgress: (progress) => {
        ;({ id } = progress)
        if (progress.sent > 0) controller.abort(new Error('ended'))
      },
    })
    await expect(broken).rejects.toThrow('ended')
    const steps: number[] = []
    const receipt = await all.evidence.uploadResumably(file, {
      resume: id,
      pieceBytes: 20_000,
      onProgress: ({ sent }) => steps.push(sent),
    })
    expect(steps).toEqual([20_000, 40_000, 50_000])
    expect(receipt).toMatchObject({
      file_name: 'large.txt',
      size_bytes: content.length,
      sha256: createHash('sha256').update(content).digest('hex'),
      jws: expect.stringContaining('.'),
    })
  })

  test('an access token of an administrator can manage keys, and a key cannot', async () => {
    await expect(all.keys.list().all()).rejects.toMatchObject({ status: 403, code: 'role_required' })
    const token = issuer.tokenFor(tenant.id)
    const admin = createPosternClient({ baseUrl: stack.gateways[0] ?? '', token: async () => token })
    const made = await admin.keys.create({ label: 'BI', expires_in: '30d', scopes: ['read:findings'] })
    const bi = createPosternClient({ baseUrl: stack.gateways[0] ?? '', key: made.key })
    expect(await bi.whoami()).toMatchObject({ label: 'BI' })
    expect(await admin.keys.find(made.key)).toMatchObject({ id: made.id })
    const asked = { method: 'POST', path: '/api/v1/findings', address: '203.0.113.7' }
    expect(await admin.keys.explain(made, asked)).toMatchObject({ status: 403, code: 'insufficient_scope' })
    const renamed = await admin.keys.update(await admin.keys.get(made.id), { label: 'BI export' })
    expect(renamed).toMatchObject({ label: 'BI export' })
    const rotated = await admin.keys.rotate(made, { overlap: '1h' })
    expect(rotated.rotated_from).toBe(made.id)
    const leaked = await admin.keys.create({ label: 'Leaked', expires_in: '30d', scopes: ['read:findings'] })
    expect(await admin.keys.reportLeak([leaked.key])).toMatchObject({ values: 1 })
    expect(await reportLeakedKeys({ baseUrl: stack.gateways[0] ?? '' }, [leaked.key])).toMatchObject({ values: 1 })
    expect(await admin.keys.get(leaked.id)).toMatchObject({ state: 'revoked', revoked_by: { type: 'reporter' } })
    expect(await admin.keys.revoke(made, { reason: 'Test' })).toMatchObject({ state: 'revoked' })
    await expect(bi.whoami()).rejects.toMatchObject({ status: 401, code: 'key_revoked' })
    expect(await admin.keys.usage(made)).toBeDefined()
    const many = [1, 2].map(
      async (n) => await admin.keys.create({ label: `Many ${n}`, expires_in: '30d', scopes: ['read:findings'] }),
    )
    const ids = (await Promise.all(many)).map(({ id }) => id)
    const { version } = await admin.keys.previewBulk({ ids })
    expect(await admin.keys.changeMany({ action: 'revoke', ids, version })).toMatchObject({ changed: 2 })
    const policy = await admin.keys.policy()
    expect(await admin.keys.updatePolicy(policy, { max_key_days: 365 })).toMatchObject({ max_key_days: 365 })
    expect(await admin.keys.policyEvents().all()).toMatchObject([{ max_key_days: 365 }])
    await expect(admin.keys.updatePolicy(policy, { max_key_days: 400 })).rejects.toMatchObject({ status: 412 })
    expect(await admin.keys.members().all()).toBeDefined()
    expect((await admin.keys.events(made).all()).map(({ type }) => type)).toContain('revoked')
  })
})

describe('an administrator', () => {
  test('manages evidence with an access token, and a key cannot', async () => {
    const { id } = await all.evidence.upload({
      fileName: 'kept.txt',
      content: Buffer.from('kept'),
      contentType: 'text/plain',
    })
    await expect(all.custody.list().all()).rejects.toMatchObject({ status: 403, code: 'role_required' })
    const token = issuer.tokenFor(tenant.id)
    const { custody } = createPosternClient({ baseUrl: stack.gateways[0] ?? '', token: () => token })
    const file = await custody.get(id)
    expect(await custody.refresh(file)).toBe(file)
    expect((await custody.list({ status: 'accepted' }).all()).map((each) => each.id)).toContain(id)
    await expect(all.custody.content(id)).rejects.toMatchObject({ status: 403, code: 'role_required' })
    expect(await (await custody.content(file)).text()).toBe('kept')
    expect((await custody.events(file).all()).map(({ kind }) => kind)).toEqual(['received', 'hashed', 'viewed'])
    const reason = 'An example'
    await expect(custody.release(file, { reason })).rejects.toMatchObject({ status: 409 })
    await expect(custody.purge(id, { reason })).rejects.toMatchObject({ status: 409 })
    expect(await custody.hold(file, { reason })).toMatchObject({ legal_hold: { reason } })
    expect(await custody.liftHold(file, { reason })).toMatchObject({ legal_hold: null })
    expect(await custody.review(file, { verdict: 'reviewed', reason })).toMatchObject({ status: 'reviewed' })
    const policy = await custody.policy()
    expect(await custody.updatePolicy(policy, { retention_years: 10 })).toMatchObject({ retention_years: 10 })
    await expect(custody.updatePolicy(policy, { retention_years: 9 })).rejects.toMatchObject({ status: 412 })
  })
})

describe('README.md', () => {
  const folder = join(import.meta.dirname, '..')

  test('contains exactly the examples that the next test runs', async () => {
    const page = await readFile(join(folder, 'README.md'), 'utf8')
    const code = await readFile(join(folder, 'test', 'readme-examples.ts'), 'utf8')
    const examples = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, example = '']) => example)
    expect(examples.length).toBeGreaterThan(5)
    for (const example of examples) expect(code).toContain(example)
  })

  test('has examples that work', async () => {
    const { id } = await stack.createTenant()
    const { key } = await stack.createKey({ id }, { scopes: ['*'] })
    const env = { PATH: '', POSTERN_URL: stack.gateways[0], POSTERN_KEY: key, POSTERN_TOKEN: issuer.tokenFor(id) }
    const args = ['--conditions=@postern/source', join(folder, 'test', 'readme-examples.ts')]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env })
    expect(stdout).toContain('somebody was faster')
    expect(stdout).not.toContain(key)
  })
})
