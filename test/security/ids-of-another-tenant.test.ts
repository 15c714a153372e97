/**
 * @promise Tenants: Another tenant's resources return the same 404 as missing ones, byte for byte.
 * @alsoShownBy test/security/tenant-isolation.test.ts, services/keys/test/read-and-list-keys.test.ts
 */

import { randomUUID } from 'node:crypto'
import { type Route, itemSchemaOf, routeTable } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Answer } from '../support/http.ts'
import { casesOfPeople } from '../support/id-cases-of-people.ts'
import { type Case, base, cases, text, tus } from '../support/id-cases.ts'
import { exampleOf, idPlaces, placesOf, routeOf } from '../support/id-places.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'
import { type Kind, type Request, type Side, fillSide, finding, kinds } from '../support/two-sides.ts'

let stack: TestStack
let issuer: RunningIssuer
let ours: Side
let theirs: Side

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({ env: { POSTERN_OIDC_ISSUER: issuer.url, POSTERN_SYNC_NETWORKS: '127.0.0.1/32' } })
  const [gateway = ''] = stack.gateways
  ours = await fillSide(stack, gateway, issuer)
  theirs = await fillSide(stack, gateway, issuer)
}, 120_000)
afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

const all = [...cases, ...casesOfPeople]
const sentinel = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9bfaff'

/** Routes whose requests say more than a path and the document's example: they are among the cases. */
const inCases = new Set([
  'universe.diff-hierarchy',
  'evidence.read-upload',
  'evidence.append-upload',
  'sync.scim-patch-group',
])

/** Paths that no case above goes to: with the body that the document shows, which is as good as any other. */
const ofPaths = routeTable
  .filter(({ path, id }) => path.includes(':') && !inCases.has(id))
  .flatMap((route): { readonly kind: Kind; readonly route: Route }[] => {
    const words = route.path.split('/')
    const kind = kinds.find((each) => each === words[words.findIndex((word) => word.startsWith(':')) - 1])
    return kind === undefined ? [] : [{ kind, route }]
  })
  // What takes away comes last.
  .toSorted((one, other) => Number(takesAway(one.route)) - Number(takesAway(other.route)))

function takesAway({ method, id }: Route): boolean {
  return method === 'DELETE' || id === 'keys.revoke' || id === 'evidence.purge'
}

function onPath(route: Route, at: string): Request {
  const body = exampleOf(route)
  return {
    path: route.path.replace(/:[a-z]+/, at),
    method: route.method,
    headers: {
      ...(route.method === 'PATCH' ? { 'if-match': '"1"' } : {}),
      ...(route.path.includes('/uploads/') ? tus : {}),
    },
    ...(body === undefined ? {} : { body }),
  }
}

/** Members that differ between any two responses. */
const varying = new Set(['date', 'x-request-id', 'ratelimit', 'location', 'upload-expires'])

/** Returns a response without the requested id and without members that always differ. */
function said({ status, headers, text: body }: Answer, at: string) {
  const plain = body
    .replaceAll(at, '<id>')
    .replaceAll(/"instance":"[^"]*"/g, '"instance":""')
    .replaceAll(/Request [^" ]*\./g, 'Request.')
  if (status >= 400) return { status, headers: namedIn(headers), text: plain }
  // New resources have their own ids and times.
  const made = plain
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<own>')
    .replaceAll(/\b(F|AP|R|EV|AE|TP)-[0-9]{4}[0-9.-]*\b/g, '<reference>')
    .replaceAll(/\d{4}-\d{2}-\d{2}T[0-9:.]+Z/g, '<time>')
    .replaceAll(/"(jws|hash|etag|prev_hash|sha256|file_name)":"[^"]*"/g, '"$1":""')
  const ofItsOwn = new Set(['etag', 'content-length'])
  return { status, headers: namedIn(headers).filter(([name]) => !ofItsOwn.has(name)), text: made }
}

function namedIn(headers: Answer['headers']): [name: string, value: string | string[] | undefined][] {
  return Object.entries(headers)
    .filter(([name]) => !varying.has(name))
    .map(([name, value]) => [name, name === 'postern-next-updated-since' ? positionIn(String(value)) : value])
}

/** Its other part is the time of the request. */
function positionIn(mark: string): string | undefined {
  return mark.split('_', 2)[1]
}

/** Responses to another tenant, for an unknown id, and to the owner. */
async function asked(kind: Kind, request: Case[2]) {
  const unknown = randomUUID()
  const theirId = theirs.ids[kind]
  const foreign = await ours.send(await request(theirId, ours))
  const missing = await ours.send(await request(unknown, ours))
  const known = await theirs.send(await request(theirId, theirs))
  return { foreign: said(foreign, theirId), missing: said(missing, unknown), known: said(known, theirId) }
}

/** Lists that fit into one page even for a filled tenant. */
const short: ReadonlySet<string> = new Set(['keys.list-members'])

describe('a cursor of another tenant’s list is rejected like an invalid one', () => {
  const lists = routeTable.filter((route) => itemSchemaOf(route) !== undefined && !short.has(route.id))
  test.each(
    lists.map(({ path, id, query }) => [path, id, query?.shape['cursor'] === undefined ? 'since' : 'cursor'] as const),
  )('%s', async (path, id, name) => {
    const words = path.split('/')
    const kind = kinds.find((each) => each === words[words.findIndex((word) => word.startsWith(':')) - 1])
    const target = (of: Side) => path.replace(/:[a-z]+/, kind === undefined ? '' : of.ids[kind])
    const extra = id === 'universe.diff-hierarchy' ? '&from=0' : ''
    const page = await theirs.send({ path: `${target(theirs)}?limit=1${extra}` })
    const next = /<([^>]+)>/.exec(String(page.headers['link'] ?? ''))?.[1]
    if (next === undefined) throw new Error(`${path} has no page behind the first: ${page.text}`)
    // The control: its own tenant gets the next page.
    expect((await theirs.send({ path: next })).status).toBe(200)
    const cursor = new URLSearchParams(next.split('?')[1]).get(name) ?? ''
    const ask = async (value: string) => await ours.send({ path: `${target(ours)}?limit=1${extra}&${name}=${value}` })
    const [foreign, made] = [await ask(cursor), await ask('bm9uZQ')]
    expect(foreign.status).toBe(400)
    expect(said(foreign, cursor)).toEqual(said(made, 'bm9uZQ'))
  })
})

describe('an id of another tenant returns the same bytes as an unknown id', () => {
  const tried = all.map(([kind, place, request, control = 'another']) => ({ kind, place, request, control }))
  test.each(tried)('of $kind, in the $place', async ({ kind, request, control }) => {
    const { foreign, missing, known } = await asked(kind, request)
    expect(foreign).toEqual(missing)
    if (typeof control === 'number') expect(known.status, known.text).toBe(control)
    if (control === 'kept') expect(known.status, known.text).toBe(missing.status)
    else expect(known).not.toEqual(missing)
  })

  test.each(ofPaths.map(({ kind, route }) => [route.method, route.path, kind, route] as const))(
    'in the path of %s %s',
    async (_method, _path, kind, route) => {
      const { foreign, missing, known } = await asked(kind, (at) => onPath(route, at))
      expect(foreign).toEqual(missing)
      // What is public says nothing of a resource, even to its owner.
      if (route.access.kind === 'public') expect(known).toEqual(missing)
      else expect(known).not.toEqual(missing)
    },
  )

  test('every place of the API that accepts an id is tested', async () => {
    const requests = await Promise.all(all.map(async ([, , request]) => await request(sentinel, ours)))
    const covered = new Set(
      [...requests, ...ofPaths.map(({ route }) => onPath(route, sentinel))].flatMap((request) => {
        const route = routeOf(request.method ?? 'GET', request.path)
        return placesOf(sentinel, request, route).map((place) => `${route.id} ${place}`)
      }),
    )
    const places = idPlaces().map(({ route, place }) => `${route.id} ${place}`)
    expect(places.length).toBeGreaterThan(100)
    expect(places.filter((place) => !covered.has(place))).toEqual([])
  })

  test('an Idempotency-Key that another tenant used is treated as new', async () => {
    for (const [path, body] of [
      [`${base}/findings`, { ...finding, external_id: 'idempotent' }],
      [`${base}/sync/people`, [{ external_id: 'idempotent', name: 'Bo' }]],
      [`${base}/evidence?file_name=i.txt`, 'i'],
    ] as const) {
      const headers = { 'idempotency-key': randomUUID(), ...(typeof body === 'string' ? text : {}) }
      const ask = async (side: Side) => await side.send({ path, method: 'POST', body, headers })
      const [theirsFirst, oursFirst, oursAgain] = [await ask(theirs), await ask(ours), await ask(ours)]
      const replayed = [theirsFirst, oursFirst, oursAgain].map((answer) => answer.headers['idempotent-replayed'])
      expect(replayed, path).toEqual([undefined, undefined, 'true'])
      expect([oursFirst.status, oursAgain.text], path).toEqual([theirsFirst.status, oursFirst.text])
    }
  })

  test('an entity tag of another tenant is treated like any other wrong one', async () => {
    const path = `${base}/findings/${ours.ids.findings}`
    const change = async (etag: string) =>
      await ours.send({ path, method: 'PATCH', body: { title: 'Mine' }, headers: { 'if-match': etag } })
    const [foreign, wrong] = [await change(theirs.etag), await change('"77.2026-01-01"')]
    expect(foreign.status).toBe(412)
    expect(said(foreign, '-')).toEqual(said(wrong, '-'))
  })
})
