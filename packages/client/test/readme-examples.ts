// The examples of README.md in order, and a few more. A test runs this file on a real system and compares it with README.md.
// oxlint-disable no-console
import { openAsBlob } from 'node:fs'
import { PosternProblem, createPosternClient } from '@postern/client'

const { POSTERN_URL: baseUrl = '', POSTERN_KEY: key = '' } = process.env
const client = createPosternClient({ baseUrl, key })
const me = await client.whoami()
console.log(`${me.label} may ${me.scopes.join(', ')}`)

await client.sync.pushPeople([{ external_id: 'hr-1', name: 'Ada Lund', email: 'ada.lund@harbourline.example' }])
await client.sync.pushEntities([
  { external_id: 'pay', name: 'Payments', type: 'process', owner: { email: 'ada.lund@harbourline.example' } },
])
await client.sync.pushTestProcedures([{ external_id: 'tp-1', title: 'Access review', entities: ['pay'] }])
await client.sync.pushLines('entities', '{"external_id":"pay-eu","name":"Payments EU","type":"process"}\n')

const payments = await client.entities.get('ext:pay')
const finding = await client.findings.create({
  title: 'Access reviews are late',
  condition: 'Three of twelve reviews were not done.',
  severity: 'high',
  entity_ids: [payments.id],
})

for await (const each of client.findings.list({ severity: ['critical', 'high'], sort: '-updated_at' })) {
  console.log(each.reference, each.title)
}
const drafts = await client.findings.list({ status: 'draft' }).all()

const expand = ['action_plans', 'entities'] as const
for await (const { reference, action_plans = [], entities = [] } of client.findings.list({ expand })) {
  console.log(reference, action_plans.length, entities.map(({ name }) => name).join(', '))
}

const read = await client.findings.get(finding.id)
const changed = await client.findings.update(read, { severity: 'critical' })
console.log(read.version, changed.version)

await client.findings.edit(finding.id, ({ custom }) => ({ custom: { ...custom, ticket: 'JIRA-12' } }))

try {
  await client.findings.update(read, { severity: 'low' })
} catch (error) {
  if (!(error instanceof PosternProblem) || !error.is('precondition_failed')) throw error
  console.log(`somebody was faster (request ${error.requestId})`)
}

const log = await openAsBlob('package.json')
const receipt = await client.evidence.upload({
  content: log,
  fileName: 'access-review.json',
  contentType: 'application/json',
  testProcedures: ['ext:tp-1'],
})
const [first] = await client.evidence.uploadAll(
  [
    { content: log, fileName: 'a.json', contentType: 'application/json' },
    { content: log, fileName: 'b.json', contentType: 'application/json' },
  ],
  { about: { evidence_date: '2026-11-20', source_system: 'IAM' } },
)
const resumed = await client.evidence.uploadResumably(
  { content: log, fileName: 'large.json', contentType: 'application/json' },
  { onProgress: ({ id, sent, size }) => console.log(`upload ${id}: ${sent} of ${size} bytes`) },
)
console.log(receipt.reference, first?.sha256 === resumed.sha256)

let since: string | undefined
for await (const { changes, next } of client.changes.catchUp(since === undefined ? {} : { since })) {
  console.log(changes.length, 'changes')
  since = next
}

const patient = createPosternClient({ baseUrl, key, retries: 6, maxWaitMs: 120_000, timeoutMs: 10_000 })
const signal = AbortSignal.timeout(60_000)
console.log(await patient.findings.list({}, { signal }).count(), drafts.length)

const { POSTERN_TOKEN: token = '' } = process.env
const admin = createPosternClient({ baseUrl, token: () => token })
const made = await admin.keys.create({ label: 'BI export', expires_in: '90d', scopes: ['read:findings'] })
await admin.keys.revoke(made, { reason: 'An example' })
