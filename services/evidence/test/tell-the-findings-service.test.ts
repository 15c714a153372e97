import { type Receipt } from '@postern/contracts'
import { internalPaths, unknownEvidenceAnswerSchema } from '@postern/contracts/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startEvidence, uploaded, uploader } from './support.ts'

let evidence: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => {
  evidence = await startEvidence()
})
afterAll(async () => await evidence.close())

const path = internalPaths.unknownEvidence
const refOf = ({ id, sha256, size_bytes: size }: Receipt) => ({ evidence_id: id, sha256, size })

describe('which evidence there is', () => {
  test('is told to the findings service alone', async () => {
    const tenant = uploader()
    const body = { evidence_refs: [refOf(await uploaded(evidence.caller, tenant, 'a'))] }
    const service = { ...tenant, kind: 'service', id: 'findings' } as const
    expect((await evidence.caller.call(service, 'POST', path, { body })).status).toBe(401)
    expect((await evidence.asFindings.call(service, 'POST', path, { body })).status).toBe(200)
  })

  test('is what the tenant has brought, with the size and digest of the receipt', async () => {
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
})
