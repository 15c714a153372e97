import { randomUUID } from 'node:crypto'
import { type Case, bulk, form, fresh, freshPlan, get, patch, post } from './id-cases.ts'
import { finding, opened, planned } from './two-sides.ts'

const ago = { reason: 'r', accepted_until: '2027-01-01' }

/** Requests with ids of people: findings and plans require known people, pushed data is stored unchanged. */
export const casesOfPeople: readonly Case[] = [
  ['people', 'filter of findings', (at) => get(`/findings?count=true&owner=${at}`)],
  ['people', 'filter of a summary', (at) => get(`/findings/summary?owner=${at}`)],
  ['people', 'filter of a plan of action', (at) => get(`/exports/poam.json?owner=${at}`)],
  ['people', 'filter of entities', (at) => get(`/entities?count=true&owner=${at}`)],
  ['people', 'filter of plans', (at) => get(`/action-plans?count=true&owner=${at}`), 'kept'],
  [
    'people',
    'filter of plans of a finding',
    (at, of) => get(`/findings/${of.ids.findings}/action-plans?owner=${at}`),
    'kept',
  ],
  [
    'people',
    'body of a finding',
    (at) => post('/findings', { ...finding, external_id: randomUUID(), owner: { person_id: at } }),
  ],
  [
    'people',
    'body of a change of a finding',
    async (at, of) => {
      const { id, etag } = await fresh(of)
      return patch(`/findings/${id}`, { owner: { person_id: at } }, etag)
    },
  ],
  [
    'people',
    'bulk item',
    (at) => post('/findings/bulk', bulk({ ...finding, external_id: randomUUID(), owner: { person_id: at } })),
  ],
  ['people', 'metadata of a form, as who collected', (at) => form({ collected_by: { person_id: at } }), 'kept'],
  [
    'people',
    'body of a move, as who accepts',
    async (at, of) =>
      post(`/findings/${(await fresh(of, { ...opened, entity_ids: [of.ids.entities] })).id}/status`, {
        to: 'risk_accepted',
        ...ago,
        approver: { person_id: at },
      }),
  ],
  [
    'people',
    'body of a move, as who validates',
    async (at, of) =>
      post(`/findings/${(await fresh(of)).id}/status`, { to: 'closed', note: 'n', validated_by: { person_id: at } }),
  ],
  [
    'people',
    'body of a plan',
    (at, of) => post(`/findings/${of.ids.findings}/action-plans`, { ...planned, owner: { person_id: at } }),
  ],
  [
    'people',
    'body of a change of a plan, as owner and as who extends',
    async (at, of) => {
      const { id, etag } = await freshPlan(of)
      const who = { person_id: at }
      const later = { due_date: '2099-01-01', extension_reason: 'r', extension_approved_by: who }
      return patch(`/action-plans/${id}`, { owner: who, ...later }, etag)
    },
  ],
  [
    'people',
    'body of a change of a plan, as who verifies',
    async (at, of) => {
      const { id, etag } = await freshPlan(of)
      return patch(`/action-plans/${id}`, { status: 'verified', verified_by: { person_id: at } }, etag)
    },
  ],
  [
    'people',
    'bulk item of plans, as owner, as who verifies and as who extends',
    (at, of) => {
      const who = { person_id: at }
      const item = { ...planned, finding: of.ids.findings, owner: who, verified_by: who, extension_approved_by: who }
      return post('/action-plans/bulk', bulk(item))
    },
  ],
  [
    'people',
    'body of a move of a plan',
    async (at, of) =>
      post(`/action-plans/${(await freshPlan(of)).id}/status`, { to: 'verified', verified_by: { person_id: at } }),
  ],
  [
    'people',
    'body of an extension',
    async (at, of) =>
      post(`/action-plans/${(await freshPlan(of)).id}/extensions`, {
        to: '2031-01-01',
        reason: 'r',
        approved_by: { person_id: at },
      }),
  ],
  [
    'people',
    'pushed entity',
    (at) => {
      const who = { person_id: at }
      const row = { external_id: randomUUID(), name: 'P', type: 'process', owner: who, audit_lead: who, executive: who }
      return post('/sync/entities', [row])
    },
    'kept',
  ],
  [
    'people',
    'pushed node',
    (at) => {
      const nodes = [{ node_key: randomUUID(), name: 'N', head: { person_id: at } }]
      return post('/sync/org-structures/heads', { name: 'H', kind: 'custom', mode: 'partial', nodes })
    },
    'kept',
  ],
  ...['tester', 'reviewer'].map((member): Case => [
    'people',
    `pushed test procedure, as the ${member}`,
    (at) => post('/sync/test-procedures', [{ external_id: randomUUID(), title: 'T', [member]: { person_id: at } }]),
    'kept',
  ]),
]
