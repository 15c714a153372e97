import type { Receipt } from '@postern/contracts'
import { internalPaths, unknownEvidenceAnswerSchema } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findsMalware, person } from './people.ts'
import { startEvidence, uploaded, uploader } from './support.ts'

let evidence: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => {
  evidence = await startEvidence({}, { scanner: findsMalware })
})
afterAll(async () => await evidence.close())

const path = internalPaths.unknownEvidence
const refOf = ({ id, sha256, size_bytes: size }: Receipt) => ({ evidence_id: id, sha256, size })

describe('the list of existing evidence', () => {
  test('is shown only to the findings service', async () => {
    const tenant = uploader()
    const body = { evidence_refs: [refOf(await uploaded(evidence.caller, tenant, 'a'))] }
    const service = { ...tenant, kind: 'service', id: 'findings' } as const
    expect((await evidence.caller.call(service, 'POST', path, { body })).status).toBe(401)
    expect((await evidence.asFindings.call(service, 'POST', path, { body })).status).toBe(200)
  })

  test('contains the tenant’s files with the size and digest of their receipts', async () => {
    const [tenant, other] = [uploader(), uploader()]
    const mine = refOf(await uploaded(evidence.caller, tenant, 'the same'))
    const theirs = refOf(await uploaded(evidence.caller, other, 'the same'))
    const refs = [
      mine,
      theirs,
      { ...mine, size: 9 },
      { ...mine, sha256: 'a'.repeat(64) },
      { ...mine, evidence_id: crypto.randomUUID() },
      mine,
    ]
    const service = { ...tenant, kind: 'service', id: 'findings' } as const
    const answer = await evidence.asFindings.call(service, 'POST', path, { body: { evidence_refs: refs } })
    expect(unknownEvidenceAnswerSchema.parse(answer.json).places).toEqual([1, 2, 3, 4])
  })

  test('contains released and reviewed files, not those in quarantine, rejected or purged', async () => {
    const tenant = uploader()
    const service = { ...tenant, kind: 'service', id: 'findings' } as const
    const isThere = async (receipt: Receipt) => {
      const body = { evidence_refs: [refOf(receipt)] }
      const { json } = await evidence.asFindings.call(service, 'POST', path, { body })
      return unknownEvidenceAnswerSchema.parse(json).places.length === 0
    }
    const decide = async (by: Principal, { id }: Receipt, verb: string, body: object = {}) => {
      const target = `/api/v1/evidence-files/${id}/${verb}`
      const { status, text } = await evidence.caller.call(by, 'POST', target, { body: { reason: 'Seen.', ...body } })
      expect(status, text).toBe(200)
    }
    const [admin, auditor] = [person(tenant, 'admin'), person(tenant, 'auditor')]
    const infected = await uploaded(evidence.caller, tenant, 'malware')
    expect(infected.status).toBe('quarantined')
    expect(await isThere(infected)).toBe(false)
    await decide(admin, infected, 'release')
    expect(await isThere(infected)).toBe(true)
    await decide(auditor, infected, 'review', { verdict: 'rejected' })
    expect(await isThere(infected)).toBe(false)
    const file = await uploaded(evidence.caller, tenant, 'seen')
    await decide(auditor, file, 'review', { verdict: 'reviewed' })
    expect(await isThere(file)).toBe(true)
    await evidence.rows('alter table evidence.file disable trigger file_never_changes')
    await evidence.rows(
      `update evidence.file set received_at = now() - interval '3 years', retention_until = current_date - 1
      where id = $1`,
      [file.id],
    )
    await evidence.rows('alter table evidence.file enable trigger file_never_changes')
    await decide(admin, file, 'purge')
    expect(await isThere(file)).toBe(false)
  })
})
