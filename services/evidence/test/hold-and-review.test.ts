/**
 * @promise Data: Nobody can purge evidence under a legal hold.
 */

import { randomUUID } from 'node:crypto'
import { custodyEventSchema, evidenceFileSchema, problemSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { findsMalware, person } from './people.ts'
import { startEvidence, uploaded, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => (service = await startEvidence({}, { scanner: findsMalware })))
afterAll(async () => await service.close())

const files = '/api/v1/evidence-files'
const reason = 'Case 4711'
type Verb = 'release' | 'purge' | 'hold' | 'lift-hold' | 'review'

async function decide(by: Principal, id: string, verb: Verb, body: object = { reason }, headers = {}) {
  return await service.caller.call(by, 'POST', `${files}/${id}/${verb}`, { body, headers })
}

async function review(by: Principal, id: string, verdict: string) {
  return await decide(by, id, 'review', { verdict, reason })
}

async function read(by: Principal, id: string) {
  return evidenceFileSchema.parse((await service.caller.call(by, 'GET', `${files}/${id}`)).json)
}

async function listed(by: Principal, query: string): Promise<string[]> {
  const { json } = await service.caller.call(by, 'GET', `${files}?${query}`)
  return z
    .array(evidenceFileSchema)
    .parse(json)
    .map(({ id }) => id)
}

async function kindsOf(by: Principal, id: string): Promise<string[]> {
  const { json } = await service.caller.call(by, 'GET', `${files}/${id}/custody`)
  return z
    .array(custodyEventSchema)
    .parse(json)
    .map(({ kind }) => kind)
}

async function revised(sender: Principal, id: string, body: string) {
  const target = `/api/v1/evidence/${id}/revisions?file_name=a.csv`
  const { json } = await service.caller.call(sender, 'POST', target, { body, headers: { 'content-type': 'text/csv' } })
  return z.object({ id: z.string() }).parse(json)
}

/** The day is over until which the files of a tenant are kept. */
async function endRetention({ tenantId }: Principal): Promise<void> {
  await service.rows('alter table evidence.file disable trigger file_never_changes')
  await service.rows(
    `update evidence.file set received_at = now() - interval '3 years', retention_until = current_date - 1
    where tenant_id = $1`,
    [tenantId],
  )
  await service.rows('alter table evidence.file enable trigger file_never_changes')
}

const codeOf = ({ status, json }: { status: number; json: unknown }) => [status, problemSchema.parse(json).code]

describe('holds and verdicts', () => {
  test('are not available to keys, to people without the role, or without a reason', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'evidence')
    const verbs: readonly Verb[] = ['hold', 'lift-hold', 'review']
    const body = { reason, verdict: 'reviewed' }
    for (const by of [sender, person(sender, 'viewer')]) {
      for (const verb of verbs) expect(codeOf(await decide(by, id, verb, body))).toEqual([403, 'role_required'])
    }
    for (const verb of ['hold', 'lift-hold'] as const) {
      expect(codeOf(await decide(person(sender, 'auditor'), id, verb))).toEqual([403, 'role_required'])
      expect((await decide(person(sender, 'admin'), id, verb, { reason: ' ' })).status).toBe(422)
    }
    for (const wrong of [{ reason }, { verdict: 'accepted', reason }, { verdict: 'reviewed', reason: '' }]) {
      expect((await decide(person(sender, 'auditor'), id, 'review', wrong)).status).toBe(422)
    }
    expect(await read(person(sender, 'admin'), id)).toMatchObject({ status: 'accepted', legal_hold: null })
    expect(await kindsOf(person(sender, 'admin'), id)).toEqual(['received', 'hashed', 'scanned'])
  })

  test('on files of another tenant return the same bytes as on missing files', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'evidence')
    const other = person(uploader(), 'admin')
    const said = async (asked: string, verb: Verb) => {
      const { status, text } = await decide(
        other,
        asked,
        verb,
        verb === 'review' ? { verdict: 'rejected', reason } : { reason },
      )
      return [status, text.replaceAll(/"instance":"[^"]*"/g, '')]
    }
    for (const verb of ['hold', 'lift-hold', 'review'] as const) {
      const [ofOther, ofNothing] = [await said(id, verb), await said(randomUUID(), verb)]
      expect(ofOther).toEqual(ofNothing)
      expect(ofOther[0]).toBe(404)
    }
  })
})

describe('a legal hold', () => {
  test('prevents the purge of an expired file, by the service and by the database, until it is lifted', async () => {
    const sender = uploader()
    const admin = person(sender, 'admin')
    const { id } = await uploaded(service.caller, sender, 'held')
    const { id: free } = await uploaded(service.caller, sender, 'free')
    const answers = await Promise.all([decide(admin, id, 'hold'), decide(admin, id, 'hold')])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(answers[1]?.json).toEqual(answers[0]?.json)
    const setBy = { type: 'user', id: admin.id, label: admin.label }
    expect(await read(admin, id)).toMatchObject({ status: 'accepted', legal_hold: { reason, set_by: setBy } })
    await endRetention(sender)

    expect(await listed(admin, 'legal_hold=true')).toEqual([id])
    expect(await listed(admin, 'legal_hold=false')).toEqual([free])
    expect(await listed(admin, 'retention_over=true')).toEqual([free])
    expect(codeOf(await decide(admin, id, 'purge'))).toEqual([409, 'conflict'])
    const purge = `insert into evidence.file_decision (
      tenant_id, file_id, kind, reason, decided_by_type, decided_by_id, decided_by_label) values ($1, $2, 'purged', 'r', 'user', 'u', '')`
    await expect(service.rows(purge, [sender.tenantId, id])).rejects.toThrow('legal hold')
    expect(await service.filesIn(`blobs/${sender.tenantId}`)).toHaveLength(2)

    expect(await decide(admin, id, 'lift-hold', { reason: 'Closed' })).toMatchObject({ status: 200 })
    expect((await decide(admin, id, 'lift-hold')).status).toBe(200)
    expect((await read(admin, id)).legal_hold).toBeNull()
    expect((await decide(admin, id, 'hold')).status).toBe(200)
    expect((await decide(admin, id, 'lift-hold')).status).toBe(200)
    expect((await decide(admin, id, 'purge')).status).toBe(200)
    const holds = ['legal_hold_set', 'legal_hold_lifted', 'legal_hold_set', 'legal_hold_lifted']
    expect(await kindsOf(admin, id)).toEqual(['received', 'hashed', 'scanned', ...holds, 'purged'])
    // What is gone cannot be held.
    expect(codeOf(await decide(admin, id, 'hold'))).toEqual([409, 'conflict'])
    expect((await decide(admin, id, 'lift-hold')).status).toBe(200)
  })

  test('and a concurrent purge: the file is held or purged, never both', async () => {
    const sender = uploader()
    const admin = person(sender, 'admin')
    const ids: string[] = []
    for (let round = 0; round < 4; round += 1) ids.push((await uploaded(service.caller, sender, `r${round}`)).id)
    await endRetention(sender)
    for (const id of ids) {
      const [hold, purge] = await Promise.all([decide(admin, id, 'hold'), decide(admin, id, 'purge')])
      expect([hold.status, purge.status].toSorted()).toEqual([200, 409])
      const { status, legal_hold: held } = await read(admin, id)
      expect(status === 'purged').toBe(held === null)
    }
  })

  test('can be set and lifted repeatedly, and its rows never change', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'held')
    await decide(person(sender, 'admin'), id, 'hold')
    const insert = `insert into evidence.legal_hold (
      tenant_id, file_id, number, kind, reason, decided_by_type, decided_by_id, decided_by_label) values ($1, $2, $3, $4, 'r', 'user', 'u', '')`
    for (const [number, kind] of [
      [2, 'set'],
      [3, 'set'],
      [1, 'set'],
      [4, 'lifted'],
    ]) {
      const write = service.rows(insert, [sender.tenantId, id, number, kind])
      await expect(write).rejects.toMatchObject({ code: '23514' })
    }
    for (const change of ["update evidence.legal_hold set reason = 'x'", 'delete from evidence.legal_hold']) {
      await expect(service.rows(`${change} where tenant_id = $1`, [sender.tenantId])).rejects.toThrow('never changed')
    }
  })
})

describe('a verdict', () => {
  test('is given once, by an auditor, on an accepted or released file', async () => {
    const sender = uploader()
    const [auditor, admin] = [person(sender, 'auditor'), person(sender, 'admin')]
    const { id } = await uploaded(service.caller, sender, 'evidence')
    const { id: bad } = await uploaded(service.caller, sender, 'malware')
    expect(codeOf(await review(auditor, bad, 'reviewed'))).toEqual([409, 'conflict'])
    await decide(admin, bad, 'release')
    const released = await review(auditor, bad, 'rejected')
    expect(released.json).toMatchObject({ status: 'rejected', decision_reason: reason, decided_by: { id: auditor.id } })

    const first = await review(auditor, id, 'reviewed')
    expect(first).toMatchObject({ status: 200, json: { status: 'reviewed' } })
    expect((await review(admin, id, 'reviewed')).json).toEqual(first.json)
    expect(codeOf(await review(auditor, id, 'rejected'))).toEqual([409, 'conflict'])
    // Earlier decisions stay.
    expect((await decide(admin, bad, 'release')).json).toEqual(released.json)
    expect((await decide(admin, id, 'release')).status).toBe(409)
    expect(await listed(auditor, 'status=rejected')).toEqual([bad])
    expect(await listed(auditor, 'status=reviewed')).toEqual([id])
    expect(await kindsOf(admin, bad)).toEqual(['received', 'hashed', 'scanned', 'quarantined', 'released', 'rejected'])
    const insert = `insert into evidence.file_decision (
      tenant_id, file_id, kind, reason, decided_by_type, decided_by_id, decided_by_label) values ($1, $2, 'rejected', 'r', 'user', 'u', '')`
    await expect(service.rows(insert, [sender.tenantId, id])).rejects.toMatchObject({ code: '23505' })
  })

  test('is not given on a superseded file, which shows that status and can still be read', async () => {
    const sender = uploader()
    const auditor = person(sender, 'auditor')
    const { id } = await uploaded(service.caller, sender, 'first')
    const { id: newer } = await revised(sender, id, 'second')
    expect((await read(auditor, id)).status).toBe('superseded')
    expect(await read(auditor, newer)).toMatchObject({ status: 'accepted', version_of: id, revision: 2 })
    expect(await listed(auditor, 'status=superseded')).toEqual([id])
    expect(codeOf(await review(auditor, id, 'reviewed'))).toEqual([409, 'conflict'])
    const insert = `insert into evidence.file_decision (
      tenant_id, file_id, kind, reason, decided_by_type, decided_by_id, decided_by_label) values ($1, $2, 'reviewed', 'r', 'user', 'u', '')`
    await expect(service.rows(insert, [sender.tenantId, id])).rejects.toMatchObject({ code: '23514' })
    expect((await service.caller.call(auditor, 'GET', `${files}/${id}/content`)).text).toBe('first')
    expect((await review(auditor, newer, 'reviewed')).status).toBe(200)
  })

  test('is not possible on malware with a clean newer version: it stays in quarantine', async () => {
    const sender = uploader()
    const auditor = person(sender, 'auditor')
    const { id } = await uploaded(service.caller, sender, 'malware')
    await revised(sender, id, 'clean')
    expect((await read(auditor, id)).status).toBe('quarantined')
    expect((await service.caller.call(auditor, 'GET', `${files}/${id}/content`)).status).toBe(409)
    expect((await review(auditor, id, 'reviewed')).status).toBe(409)
  })

  test('can be given while the newer version is in quarantine, which replaces nothing until it is released', async () => {
    const sender = uploader()
    const [auditor, admin] = [person(sender, 'auditor'), person(sender, 'admin')]
    const { id } = await uploaded(service.caller, sender, 'first')
    const { id: bad } = await revised(sender, id, 'malware')
    const { id: worse } = await revised(sender, bad, 'malware, again')
    expect((await read(auditor, id)).status).toBe('accepted')
    expect(await listed(auditor, 'status=superseded')).toEqual([])
    expect((await review(auditor, id, 'reviewed')).status).toBe(200)
    expect((await read(auditor, id)).status).toBe('reviewed')
    expect((await decide(admin, worse, 'release')).status).toBe(200)
    expect((await read(auditor, id)).status).toBe('superseded')
    expect((await read(auditor, bad)).status).toBe('quarantined')
  })

  test('applies to the newest valid version, even with a newer one in quarantine', async () => {
    const sender = uploader()
    const auditor = person(sender, 'auditor')
    const { id } = await uploaded(service.caller, sender, 'first')
    const { id: bad } = await revised(sender, id, 'malware')
    const { id: clean } = await revised(sender, bad, 'clean')
    expect((await read(auditor, id)).status).toBe('superseded')
    expect(codeOf(await review(auditor, id, 'reviewed'))).toEqual([409, 'conflict'])
    expect((await review(auditor, clean, 'reviewed')).status).toBe(200)
  })
})
